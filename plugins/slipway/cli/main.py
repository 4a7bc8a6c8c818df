"""The entry point: every error is one form on standard error and one exit code; no traceback for a fault of others."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from slipway.cli.failures import EXIT_CODES, ExitCode, exit_code_of, message_of
from slipway_core.errors import SlipwayError

_CODES = "; ".join(f"{code.value} {text}" for code, text in EXIT_CODES.items())
HELP = f"""Release models to NVIDIA Triton: see what is live and what is under way, and act on it.

Start with `slipway list`; `slipway get MODEL -w` follows a release. `slipway init MODEL --onnx FILE` begins your
own model.

Exit codes: {_CODES}.
"""


def make_app() -> typer.Typer:
    """Return the application with every command."""
    from slipway.cli.commands import acts, doctor, fleet, landing, local, logs, reading, shell, status

    app = typer.Typer(
        name="slipway",
        help=HELP,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_before_all)
    for module in (reading, status, logs, acts, fleet, local, doctor, landing, shell):
        module.add_to(app)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        from slipway.cli.commands.shell import NAME, installed_version

        print(f"{NAME} {installed_version()}")
        raise typer.Exit


def _before_all(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version of this command.", is_eager=True, callback=_say_version
        ),
    ] = False,
) -> None:
    """Nothing but the version is common to all commands before they run."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    try:
        code = make_app()(args=None if arguments is None else list(arguments), standalone_mode=True)
        return int(code or ExitCode.FINE)
    except SystemExit as end:
        return (
            end.code if isinstance(end.code, int) else ExitCode.FINE if end.code is None else ExitCode.USAGE
        )
    except SlipwayError as error:
        print(message_of(error), file=sys.stderr)
        return exit_code_of(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Who read the output has enough: the rest goes nowhere, also what Python writes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FINE


def main() -> None:
    """Run the command, and end the process with its exit code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
