"""Ask a read model on a busy machine: load the page again when the answer asks for that."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from slipway_core.errors import TimedOutError

Value = TypeVar("Value")
_LIMIT_S = 60.0


def asked(ask: Callable[[], Value]) -> Value:
    """Return the answer, however often it was late."""
    deadline = time.monotonic() + _LIMIT_S
    while True:
        try:
            return ask()
        except TimedOutError:
            if time.monotonic() > deadline:
                raise
