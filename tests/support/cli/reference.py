"""The commands as docs/cli.md lists them, made from the command's own help.

`python -m tests.support.cli.reference` writes them into the page; a test compares.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from slipway.cli.main import make_app

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
BEGIN, END = "<!-- commands: made by python -m tests.support.cli.reference -->", "<!-- commands: end -->"
COMMON = {"output", "profile", "url", "user", "no_color", "help"}
_EXAMPLES = "\n\nExamples:\n\n"


def reference() -> str:
    """Return the commands by panel, each with its text, its own options and its examples."""
    commands: dict[str, list[Any]] = {}
    root: Any = typer.main.get_command(make_app())
    for command in root.commands.values():
        commands.setdefault(command.rich_help_panel, []).append(command)
    parts = []
    for panel, members in commands.items():
        parts.append(f"### {panel}")
        parts += [_command(command) for command in members]
    return "\n\n".join(parts)


def page_with(text: str, commands: str) -> str:
    """Return the page with these commands between its marks."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n\n{commands}\n\n{END}{rest.split(END)[1]}"


def _command(command: Any) -> str:
    description, _, examples = inspect.cleandoc(command.help).partition(_EXAMPLES)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    own = [one for one in command.params if one.param_type_name == "option" and one.name not in COMMON]
    usage = " ".join(["slipway", command.name, *(_metavar(one) for one in arguments)])
    parts = [f"#### `{usage}`", description.replace("\n\n", "\n\n")]
    if own:
        parts.append("| option | default | what |\n|---|---|---|\n" + "\n".join(map(_row, own)))
    lines = [line.strip().strip("`") for line in examples.splitlines() if line.strip()]
    parts.append("\n".join(f"    {line}" for line in lines))
    return "\n\n".join(part for part in parts if part)


def _metavar(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _row(option: Any) -> str:
    names = "`, `".join([*option.opts, *option.secondary_opts])
    default = option.default
    shown = "required" if option.required else "" if default in (None, False, "") else f"`{default}`"
    if default is True:
        shown = f"`{option.opts[0]}`"
    return f"| `{names}` | {shown} | {option.help} |"


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), reference()), encoding="utf-8")
