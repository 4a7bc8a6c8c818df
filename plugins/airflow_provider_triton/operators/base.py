"""What the operators on a Triton server share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from airflow.sdk import BaseOperatorLink

from airflow_provider_triton.client.event_loop import run
from airflow_provider_triton.errors import TimedOutError, TritonError
from airflow_provider_triton.links import TritonServerLink

T = TypeVar("T")

LINKS: Collection[BaseOperatorLink] = (TritonServerLink(),)
# A trigger ends at its own limit, and says what it waited for. Airflow's limit is for a triggerer that is gone.
_TRIGGERER_AWAY_S = 60.0
_WORK_AWAY_S = 30.0


def defer_limit(limit_s: float) -> timedelta:
    """Return how long a deferred task is waited for whose trigger has a limit of its own."""
    return timedelta(seconds=limit_s + _TRIGGERER_AWAY_S)


def result_of(event: dict[str, Any]) -> Any:
    """Return the result that a trigger's event holds.

    :raises TritonError: it holds an error.
    """
    if event["error"] is not None:
        raise TritonError.from_dict(event["error"])
    return event.get("result")


def within(limit_s: float, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that keeps a limit for each of its parts; this is for what does not end all the same.

    :raises TimedOutError: it has not ended long after its limit.
    """
    most_s = 2 * limit_s + _WORK_AWAY_S

    async def limited() -> T:
        async with asyncio.timeout(most_s):
            return await work

    try:
        return run(limited())
    except TimeoutError as late:
        raise TimedOutError(
            "a call to Triton did not finish",
            expected=f"an end within {most_s:g} s",
            remedy="check whether it hangs",
        ) from late
