"""What the command says of itself, and how soon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from slipway.cli.failures import EXIT_CODES, ExitCode
from slipway.cli.main import make_app
from slipway_core.acts.table import ACTS
from tests.support.cli import reference
from tests.support.cli.calls import Call

ROOT = Path(__file__).parents[4]
CLICK: Any = typer.main.get_command(make_app())
COMMANDS: dict[str, Any] = CLICK.commands
HEAVY = ("airflow", "airflow_client", "boto3", "numpy", "onnx", "slipway_core.read_model")


def test_the_page_lists_the_commands_as_they_are() -> None:
    """docs/cli.md is what the help says; `python -m tests.support.cli.reference` writes it."""
    page = reference.PAGE.read_text(encoding="utf-8")
    assert page == reference.page_with(page, reference.reference())


def test_the_page_and_the_help_have_every_exit_code(call: Call) -> None:
    """Documented where a script's author looks."""
    page, shown = reference.PAGE.read_text(encoding="utf-8"), " ".join(call("--help").out.split())
    for code in ExitCode:
        assert f"| {code.value} |" in page
        assert f"{code.value} {EXIT_CODES[code]}"[:20] in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_teaches_by_examples(name: str, call: Call) -> None:
    """Its help has an example that calls it, and each of its options has a text."""
    assert f"`slipway {name}" in COMMANDS[name].help
    assert all(one.help for one in COMMANDS[name].params)
    assert call(name, "--help").code == 0


def test_every_act_of_a_person_has_a_command() -> None:
    """The table of acts is the pages' and the command's alike."""
    assert {name.replace("_", "-") for name in ACTS} <= set(COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--help"], ["release", "--help"]])
def test_help_waits_for_no_library_that_it_does_not_need(arguments: list[str]) -> None:
    """Neither Airflow nor its client, nor NumPy, nor the documents' classes are imported to show a help."""
    program = (
        "import sys; from slipway.cli.main import run; code = run(sys.argv[1:]); "
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = in_python(program, *arguments)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


def test_nothing_of_the_command_imports_airflow() -> None:
    """Neither the module of any command nor what it uses for acts."""
    program = (
        "import pkgutil, importlib, sys, slipway.cli as cli; "
        "[importlib.import_module(one.name) for one in pkgutil.walk_packages(cli.__path__, 'slipway.cli.')]; "
        "print('airflow' in sys.modules)"
    )
    assert in_python(program).stdout.strip() == "False"


def test_completion_knows_the_commands() -> None:
    """Typer's own, for a shell that asks."""
    environment = {"_SLIPWAY_COMPLETE": "complete_bash", "COMP_WORDS": "slipway re", "COMP_CWORD": "1"}
    program = "import sys; sys.argv[0] = 'slipway'; from slipway.cli.main import run; sys.exit(run([]))"
    done = in_python(program, **environment)
    assert {"release", "reject", "resume"} <= set(done.stdout.split())


def in_python(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'include'}:{ROOT / 'plugins'}", **variables}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
