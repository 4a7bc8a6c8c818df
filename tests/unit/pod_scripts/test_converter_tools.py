"""The limits of the converters' tools, and the command line of the program for three libraries."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "include" / "pod_scripts" / "convert_estimator.py"
COMMAND = ["--source", "s3://b/m", "--golden", "s3://b/g", "--destination", "s3://b/d"]


def load_program() -> ModuleType:
    description = importlib.util.spec_from_file_location("slipway_convert_estimator_tools", PROGRAM)
    assert description is not None
    assert description.loader is not None
    module = importlib.util.module_from_spec(description)
    # Its dataclasses look their module up.
    sys.modules[description.name] = module
    description.loader.exec_module(module)
    return module


program = load_program()


def run_with(folder: Path, timeout_s: float) -> Any:
    return program.Run(argparse.Namespace(timeout_s=timeout_s, memory_mib=4096), None, folder, timeout_s)


def refuse() -> None:
    raise program.PodError("GoldenSetError", "no rows", expected="some", found="none", remedy="add some")


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("act", "kind", "found"),
    [
        (refuse, "GoldenSetError", "none"),
        (crash, "ModelInvalidError", "exit code -9"),
        (lambda: {}["absent"], "SlipwayError", "KeyError: 'absent'"),
    ],
    ids=["refuses", "crashes", "fails"],
)
def test_why_a_tool_failed(tmp_path: Path, act: Any, kind: str, found: str) -> None:
    """What goes wrong in a tool's own process is told in this one: its refusal, its crash, its own fault."""
    with pytest.raises(program.PodError) as raised:
        run_with(tmp_path, 60).tool("tool", act)
    assert raised.value.kind == kind
    assert found in raised.value.found


def test_tools_share_their_time(tmp_path: Path) -> None:
    """What one tool took is gone for the next, and the error names what that one had."""
    run = run_with(tmp_path, 60)
    assert run.tool("first", lambda: time.sleep(0.2) or "answer") == "answer"
    assert run.left_s < 59.9
    run.left_s = 0.1
    with pytest.raises(program.PodError) as raised:
        run.tool("second", lambda: time.sleep(3600))
    assert (raised.value.kind, raised.value.exit_code) == ("TimedOutError", 75)
    assert "'second'" in raised.value.what
    assert "0.1 s (all tools: 60 s)" in raised.value.expected


@pytest.mark.parametrize(
    ("given", "says"),
    [([], "--library"), (["--library", "xgboost", "--trusted-type", "a.B"], "only for --library sklearn")],
)
def test_library_must_be_told(capsys: pytest.CaptureFixture[str], given: list[str], says: str) -> None:
    """Without a library, or with an option of another, nothing is done and the exit code is 2."""
    with pytest.raises(SystemExit) as ended:
        program.arguments([*COMMAND, *given])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
