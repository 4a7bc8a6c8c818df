"""The commands about the command itself: its version, and what completes it in a shell."""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from slipway.cli.invocation import Invocation, command

PANEL = "Begin and check"
NAME = "slipway"
DISTRIBUTION = "slipway-airflow"  # PyPI has another project named `slipway`


class Shell(StrEnum):
    """A shell whose completions are written."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def add_to(app: typer.Typer) -> None:
    """Declare the commands."""
    command(
        app,
        "completion",
        PANEL,
        online=False,
        examples=(
            "slipway completion bash > ~/.local/share/bash-completion/completions/slipway",
            'slipway completion zsh > "${fpath[1]}/_slipway"',
            "slipway completion fish > ~/.config/fish/completions/slipway.fish",
        ),
    )(completion)


def completion(
    invocation: Invocation, shell: Annotated[Shell, typer.Argument(help="Whose completions.")]
) -> None:
    """Print the script that makes your shell complete commands and options. It contacts no server."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name=NAME, complete_var="_SLIPWAY_COMPLETE", shell=shell.value)
    print(script)


def installed_version() -> str:
    """Return the version of this command; "unknown" where it is run from a folder that is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
