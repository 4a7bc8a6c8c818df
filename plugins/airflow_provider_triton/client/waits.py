"""What is waited for on a Triton server: coroutines, run by a trigger, an operator or a fleet's release.

Each looks at what the server says now and goes on from there, so each may be run again after it was killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.caller import TritonCaller
from airflow_provider_triton.client.failures import NoAnswerError
from airflow_provider_triton.client.pending import pending_requests
from airflow_provider_triton.client.results import IndexEntry
from airflow_provider_triton.errors import (
    ModelNotLoadedError,
    ServerUnavailableError,
    TimedOutError,
    TransientError,
    UserError,
)

POLL_INTERVAL_S = 0.5
# One question while waiting; a server that hangs is asked again.
_QUESTION_LIMIT_S = 10.0
# Of a version that holds no request any more and answers none.
_ENDED = frozenset({"UNAVAILABLE", ""})


@dataclass(frozen=True)
class Drained:
    """How a model was taken out of service.

    :param answered: requests that it answered while its users were waited for.
    :param quiet_s: for how long nobody had asked when it was unloaded.
    :param unload_s: how long its last requests took to end.
    """

    answered: int
    quiet_s: float
    unload_s: float


class Deadline:
    """A limit for all of a wait."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._at = time.monotonic() + limit_s

    @property
    def left_s(self) -> float:
        """Return the seconds until then, 0 where it has passed."""
        return max(0.0, self._at - time.monotonic())

    @property
    def question_s(self) -> float:
        """Return the limit of the next question."""
        return max(0.1, min(_QUESTION_LIMIT_S, self.left_s))


async def load_models(caller: TritonCaller, models: Sequence[tuple[str, dict[str, Any] | None]]) -> None:
    """Load models, one after the other; a load that is asked for again is harmless.

    :param models: name and whole configuration of each, None for the repository's.
    """
    deadline = Deadline(caller.timeout_s)
    for name, config in models:
        await caller.ask_async(calls.load(name, config), max(1.0, deadline.left_s))


async def wait_ready(
    caller: TritonCaller,
    model: str,
    versions: Sequence[int],
    limit_s: float,
    interval_s: float = POLL_INTERVAL_S,
) -> list[int]:
    """Wait until a model's versions are ready; return those that the server names, none without a model.

    :param model: empty for the server itself.
    :param versions: all of these; without any, one version is enough.
    :raises TimedOutError: they are not within the limit. A server that is away is waited for as well.
    """
    deadline, found = Deadline(limit_s), "no answer"
    while True:
        try:
            ready = await _ready(caller, model, versions, deadline.question_s)
            if ready is not None:
                return ready
            found = "not ready"
        except TransientError as error:
            found = error.in_short()
        if deadline.left_s <= interval_s:
            wanted = f"versions {sorted(versions)}" if versions else "a version" if model else "the server"
            raise TimedOutError(
                f"{model!r} did not become ready on Triton at {caller.settings.address}"
                if model
                else f"Triton at {caller.settings.address} did not become ready",
                expected=f"{wanted} ready within {limit_s:g} s",
                found=found,
                remedy="read the server's log",
            )
        await asyncio.sleep(interval_s)


async def _ready(
    caller: TritonCaller, model: str, versions: Sequence[int], limit_s: float
) -> list[int] | None:
    """Return the versions that are ready, None where something that is waited for is not."""
    if not model:
        return [] if await caller.ask_async(calls.ready(), limit_s) else None
    # One by one: a model that was loaded with files of the caller's is in no index.
    for version in versions or (None,):
        if not await caller.ask_async(calls.model_ready(model, version), limit_s):
            return None
    try:
        return sorted((await caller.ask_async(calls.model_metadata(model), limit_s)).versions)
    except ModelNotLoadedError:
        return None


async def drain(
    caller: TritonCaller, model: str, *, quiet_s: float, limit_s: float, dependents: bool = False
) -> Drained:
    """Take a model out of service without cutting a request short.

    First nobody may ask any more: for `quiet_s` no request has ended, by the statistics, and none waits in the queue,
    by the metrics where the connection names their port. What an instance works on is in no number of Triton's. So the
    model is unloaded then, and the index shows ``UNLOADING`` until its last request has been answered; when it shows
    ``UNAVAILABLE``, there is none left.

    :raises TimedOutError: users go on asking: the model is left in service. Or its last request does not end.
    :raises UserError: the server does not list the model, so nobody could tell when its last request has ended.
    """
    deadline = Deadline(limit_s)
    entries = await _entries(caller, model, deadline)
    answered, quiet_for_s = 0, 0.0
    if any(entry.is_ready for entry in entries):
        answered, quiet_for_s = await _wait_quiet(caller, model, quiet_s, deadline)
    elif not entries and await caller.ask_async(calls.model_ready(model), deadline.question_s):
        raise UserError(
            f"Triton at {caller.settings.address} serves {model!r} but does not list it",
            expected="a model from its repository",
            found="a model that was loaded with its own files",
            remedy="when it no longer receives requests, unload it with TritonUnloadModelOperator",
        )
    began = time.monotonic()
    # Again, too, where it is unloading already: harmless.
    await caller.ask_async(calls.unload(model, dependents=dependents), deadline.question_s)
    while not all(entry.state in _ENDED for entry in await _entries(caller, model, deadline)):
        if not deadline.left_s:
            raise TimedOutError(
                f"{model!r} has not ended on Triton at {caller.settings.address}",
                expected=f"its last request answered within {limit_s:g} s",
                found="a request that is still running",
                remedy="look for requests that never end; the model accepts no new ones",
            )
        await asyncio.sleep(POLL_INTERVAL_S)
    return Drained(answered, round(quiet_for_s, 3), round(time.monotonic() - began, 3))


async def _wait_quiet(
    caller: TritonCaller, model: str, quiet_s: float, deadline: Deadline
) -> tuple[int, float]:
    """Wait until nobody asks; return how many requests were answered meanwhile, and for how long it has been quiet."""
    first = last = await _answered(caller, model, deadline)
    since = time.monotonic()
    while (quiet_for_s := time.monotonic() - since) < quiet_s:
        if not deadline.left_s:
            raise TimedOutError(
                f"{model!r} still receives requests on Triton at {caller.settings.address}; it was left in service",
                expected=f"no request for {quiet_s:g} s, within {deadline.limit_s:g} s",
                found=f"{last - first} requests answered during the wait",
                remedy="move its clients to another model first, then run the task again",
            )
        await asyncio.sleep(min(POLL_INTERVAL_S, max(0.05, quiet_s - quiet_for_s)))
        now = await _answered(caller, model, deadline)
        # Fewer: it was loaded anew, and its counts began again.
        if now != last or await _pending(caller, model, deadline):
            since, first, last = time.monotonic(), min(first, now), now
    return last - first, quiet_for_s


async def _answered(caller: TritonCaller, model: str, deadline: Deadline) -> int:
    try:
        statistics = await caller.ask_async(calls.statistics(model), deadline.question_s)
    except ModelNotLoadedError:
        return 0
    return sum(one.answered for one in statistics)


async def _pending(caller: TritonCaller, model: str, deadline: Deadline) -> int:
    """Return how many requests are in the queue, as far as anybody can tell."""
    try:
        return await pending_requests(caller.settings, model, deadline.question_s) or 0
    except NoAnswerError as error:
        raise ServerUnavailableError(
            f"the metrics of Triton at {caller.settings.address} cannot be read",
            expected="the number of queued requests",
            found=str(error),
            remedy=f"correct `metrics_port` in the connection {caller.settings.conn_id!r}, or remove it",
        ) from error


async def _entries(caller: TritonCaller, model: str, deadline: Deadline) -> list[IndexEntry]:
    index = await caller.ask_async(calls.index(), deadline.question_s)
    return [entry for entry in index if entry.name == model]
