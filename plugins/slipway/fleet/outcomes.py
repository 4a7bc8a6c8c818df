"""The same on several servers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from slipway_core.errors import SlipwayError

T = TypeVar("T")


async def outcomes_of(works: Sequence[Awaitable[T]]) -> list[tuple[T | None, SlipwayError | None]]:
    """Wait for all; return the result of each, or its error."""
    return list(await asyncio.gather(*(_outcome(work) for work in works)))


async def _outcome(work: Awaitable[T]) -> tuple[T | None, SlipwayError | None]:
    try:
        return await work, None
    except SlipwayError as error:
        return None, error
