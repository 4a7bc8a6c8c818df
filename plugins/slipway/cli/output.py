"""What a command prints: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from slipway.cli.plain import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class Format(StrEnum):
    """How something is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Printer:
    """Prints to the terminal; colours only where the terminal and the person want them.

    :param console: for tables; None: made at the first use, since a program that reads JSON needs none.
    """

    def __init__(self, format_: Format, *, no_color: bool = False, console: Console | None = None) -> None:
        self.format = format_
        self._no_color, self._console = no_color, console

    @property
    def console(self) -> Console:
        """The console of standard output."""
        if self._console is None:
            from rich.console import Console

            # NO_COLOR is Rich's own; a pipe has no width, and nothing is cut for a program.
            width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 160
            self._console = Console(
                no_color=self._no_color or None, highlight=False, soft_wrap=False, width=width
            )
        return self._console

    def show(self, document: object, table: RenderableType | None = None) -> None:
        """Print the document as JSON or YAML, or the table that shows it.

        :param document: values that JSON has.
        """
        if self.format is Format.TABLE and table is not None:
            self.console.print(table)
        else:
            print(formatted(document, self.format))

    def say(self, text: str) -> None:
        """Print a sentence for a person; a program that reads JSON or YAML gets it on standard error."""
        # At once: what reads a pipe must not wait until much has come together.
        print(plain(text, lines=True), file=None if self.format is Format.TABLE else sys.stderr, flush=True)


def formatted(document: object, format_: Format) -> str:
    """Return the document as text, in an order that stays."""
    if format_ is Format.YAML:
        import yaml

        return yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=100).rstrip()
    # ASCII alone: whatever a server sent, a terminal obeys nothing of it.
    return json.dumps(document, indent=2)


def table_of(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()
) -> RenderableType:
    """Return a table without lines; a cell that is no text already styled is made safe.

    In a narrow terminal a cell takes several lines, and none is ever cut.

    :param right: columns of numbers.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(plain(str(cell))) for cell in row))
    return table


def fields_of(values: Mapping[str, object]) -> RenderableType:
    """Return names and values in two columns, without those that are empty."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in values.items():
        if value not in (None, ""):
            table.add_row(
                Text(name, style="bold"), value if isinstance(value, Text) else Text(plain(str(value)))
            )
    return table


def as_json(document: Any) -> Any:
    """Return a document of the read model as values that JSON has."""
    return document.model_dump(mode="json")
