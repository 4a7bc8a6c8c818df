"""Pins: versions that a person wants to keep, one object each below `operations/pins/MODEL/`.

That the object is there is what pins; what it says is for people. So one that cannot be read pins all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field

from slipway_core.errors import UserError
from slipway_core.operations.documents import OperationsDocument
from slipway_core.operations.layout import pin_prefix
from slipway_core.value_types import UtcTime
from slipway_core.written_numbers import counted

PINS_LIMIT = 1000
_NAME = re.compile(r"(?P<version>[1-9][0-9]{0,17})\.json")


class Pin(OperationsDocument):
    """Who pinned a version, when and why."""

    called: ClassVar[str] = "pin"
    limit_bytes: ClassVar[int] = 16 << 10

    by: Annotated[str, Field(max_length=200)]
    at: UtcTime
    reason: Annotated[str, Field(max_length=500)]
    run: Annotated[str, Field(max_length=500)] = ""


def pin_key(model: str, version: int) -> str:
    """Return where the pin of a version lies."""
    return f"{pin_prefix(model)}{version}.json"


def pinned_versions(model: str, keys: Iterable[str]) -> list[int]:
    """Return the versions whose pins have these keys.

    :param keys: all that lies below `pin_prefix`.
    :raises UserError: something else lies there, or too much; then nobody can tell what is pinned.
    """
    prefix = pin_prefix(model)
    names = [key.removeprefix(prefix) for key in keys if key != prefix]
    found = [_NAME.fullmatch(name) for name in names]
    stray = next((name for name, match in zip(names, found, strict=True) if match is None), None)
    if stray is not None or len(names) > PINS_LIMIT:
        raise UserError(
            f"it is unknown which versions of {model!r} are pinned",
            expected=f"objects {prefix}VERSION.json, at most {PINS_LIMIT}",
            found=counted(len(names), "object") if stray is None else repr(stray[:200]),
            remedy="look at it; pins are written by the DAG `version_pin` alone",
        )
    return sorted(int(match["version"]) for match in found if match is not None)


def pin_sentence(content: bytes | None) -> str:
    """Return what a pin says, for people.

    :param content: of the pin; None: it is gone by now, or too large.
    """
    try:
        pin = None if content is None else Pin.from_bytes(content, "the pin")
    except UserError:
        pin = None
    return (
        "pinned; the pin cannot be read"
        if pin is None
        else f"pinned by {pin.by} on {pin.at:%Y-%m-%d}: {pin.reason}"
    )
