"""Programs in Python that tests write, as they are started by their path."""

from __future__ import annotations

import shlex
from pathlib import Path


def python_head(python: str | Path) -> str:
    """Return the first lines of a program that this Python runs, wherever that lies: a `#!` line takes no space.

    To the shell they are a command, to Python a text that nobody reads; an installer writes the same.
    """
    return f"#!/bin/sh\n'''exec' {shlex.quote(str(python))} \"$0\" \"$@\"\n' '''\n"
