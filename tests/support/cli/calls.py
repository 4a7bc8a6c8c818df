"""A call of the command, and what it came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Called:
    """What a call of the command came to."""

    code: int
    out: str
    err: str


Call = Callable[..., Called]
