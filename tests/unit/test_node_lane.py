"""The lane with a real node, where what it needs is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.containers.engine import NoEngineError
from tests.support.containers.node.enclosure import alone
from tests.support.containers.node.node_cluster import require_programs
from tests.support.containers.node.runtime_programs import WITHOUT_SECCOMP


def test_a_machine_without_the_programs_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names each program that is missing, and the packages that have them."""
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoEngineError, match=r"without containerd, ctr, runc.*apt-get install.*containerd"):
        require_programs()


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root there are no namespaces, control groups and bridges to be made."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(NoEngineError, match="needs Linux and root"):
        require_programs()


def test_a_container_is_run_without_its_filter_by_a_runc_that_knows_none(tmp_path: Path) -> None:
    """The rest of what the container asks for stays as it is, and runc gets its arguments."""
    specification = {
        "process": {"user": {"uid": 10001}},
        "linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO"}},
    }
    (tmp_path / "config.json").write_text(json.dumps(specification), encoding="utf-8")
    words = ("create", "--bundle", str(tmp_path), "name")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(WITHOUT_SECCOMP), "/bin/echo", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == list(words)
    left = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert left == {"process": {"user": {"uid": 10001}}, "linux": {}}


def test_a_second_node_on_a_machine_is_refused(tmp_path: Path) -> None:
    """It would take away the bridge of the first one; when that has ended, it may begin."""
    path = tmp_path / "lock"
    with alone(path), pytest.raises(NoEngineError, match="Another node runs on this machine"), alone(path):
        pass
    with alone(path):
        pass
