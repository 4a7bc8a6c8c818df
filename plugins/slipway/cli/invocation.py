"""What every command is given: the settings, the server, the printer, the clock; and how a command is declared."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from slipway.cli.output import Format, Printer
from slipway.cli.plain import plain
from slipway.cli.settings import Flags, Settings, load_settings
from slipway_core.errors import SlipwayError

if TYPE_CHECKING:
    from slipway.cli.server import Server
    from slipway_airflow_api.client import ClientSession
    from slipway_airflow_api.session import Session

CONNECTION = "Connection"


class Clock:
    """The time, and waiting for it; a test has its own."""

    def now(self) -> datetime:
        """Return this moment, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class Invocation:
    """What one call of the command works with; the server is asked at the first need, and signed in to once."""

    def __init__(self, flags: Flags, printer: Printer, clock: Clock) -> None:
        self.flags, self.printer, self.clock = flags, printer, clock

    def warn(self, text: str) -> None:
        """Say on standard error what is wrong with what is shown; nothing for ""."""
        if text:
            print(f"Note: {plain(text)}", file=sys.stderr)

    def warn_of_deployment(self) -> None:
        """Say on standard error what is wrong with the deployment, where a server was asked: a DAG that is paused."""
        server = self.__dict__.get("server")
        for warning in () if server is None else server.warnings:
            self.warn(warning)

    @cached_property
    def settings(self) -> Settings:
        """Where Airflow is, and who asks."""
        return load_settings(self.flags)

    @property
    def pages(self) -> str:
        """The dashboard's address, without a slash at its end."""
        return f"{self.settings.access.base_url.rstrip('/')}/slipway"

    @cached_property
    def session(self) -> Session:
        """Airflow, as this person."""
        from slipway_airflow_api.session import Session

        return Session(self.settings.access)

    @cached_property
    def server(self) -> Server:
        """The documents of the read model."""
        from slipway.cli.server import Server

        return Server(self.session, self.clock.sleep)

    @cached_property
    def airflow(self) -> ClientSession:
        """Airflow's own client library, which takes more than a second to import: only acts and logs need it."""
        from slipway_airflow_api.client import ClientSession

        return ClientSession(self.session)


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]
_COMMON: dict[str, tuple[Any, Any]] = {
    "profile": (
        Annotated[
            str | None,
            typer.Option(
                "--profile",
                help="A profile of the configuration file, or `sandbox`.",
                rich_help_panel=CONNECTION,
            ),
        ],
        None,
    ),
    "url": (
        Annotated[
            str | None,
            typer.Option(
                "--url",
                help="Airflow's address, such as https://airflow.example.com.",
                rich_help_panel=CONNECTION,
            ),
        ],
        None,
    ),
    "user": (
        Annotated[
            str | None, typer.Option("--user", help="The user who signs in.", rich_help_panel=CONNECTION)
        ],
        None,
    ),
}
_NO_COLOR = Annotated[bool, typer.Option("--no-color", help="No colors; NO_COLOR=1 does the same.")]
_Command = Callable[..., None]


def command(
    app: typer.Typer,
    name: str,
    panel: str,
    *,
    examples: tuple[str, ...] = (),
    online: bool = True,
    asks_airflow: bool = True,
) -> Callable[[_Command], _Command]:
    """Declare a command: a function of a `Invocation` and of its own arguments and options.

    The options that all commands have (the connection's, and `--no-color`) are put to its own.

    :param panel: under which heading `slipway --help` lists it.
    :param examples: what `--help` shows after the text.
    :param online: False: it asks no server, so there is nothing to say about one.
    :param asks_airflow: False: it asks another one, such as the bucket, and Airflow is not asked for near names either.
    """

    def declare(function: _Command) -> _Command:
        own = inspect.signature(function).parameters
        hints = get_type_hints(function, include_extras=True)
        parameters = [
            parameter.replace(annotation=hints[key], kind=inspect.Parameter.KEYWORD_ONLY)
            for key, parameter in list(own.items())[1:]
        ]
        common = {**(_COMMON if online else {}), "no_color": (_NO_COLOR, False)}
        parameters += [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for key, (kind, default) in common.items()
        ]

        def run(**given: Any) -> None:
            flags = Flags(*(given.pop(key, None) for key in ("url", "user", "profile")))
            printer = Printer(given.get("output", Format.TABLE), no_color=given.pop("no_color"))
            invocation = Invocation(flags, printer, Clock())
            try:
                function(invocation, **given)
            except SlipwayError as error:
                if not online or not asks_airflow:
                    raise
                from slipway.cli.near_names import with_near_name

                better = with_near_name(lambda: invocation.server, given, error)
                if better is error:
                    raise
                raise better from error
            finally:
                invocation.warn_of_deployment()

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, rich_help_panel=panel, help=_help(function, examples))(run)
        return function

    return declare


def _help(function: _Command, examples: tuple[str, ...]) -> str:
    """Return the help text: the docstring, then the examples, each on a line of its own."""
    text = inspect.getdoc(function) or ""
    if not examples:
        return text
    return text + "\n\nExamples:\n\n" + "\n\n".join(f"`{example}`" for example in examples)
