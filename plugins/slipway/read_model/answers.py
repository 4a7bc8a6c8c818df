"""Answers of a store that may hang, for pages: kept for a short time, and shown with their age when no newer ones come.

A question is asked by one thread however many pages wait for its answer, and there is a limit to the threads of all
questions together. Nobody waits longer than the limit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from slipway.read_model.store_health import StoreHealth
from slipway_core.errors import (
    InputMissingError,
    SlipwayError,
    StoreUnavailableError,
    TimedOutError,
    TransientError,
    UnknownModelError,
)

log = logging.getLogger(__name__)

GREATEST_AGE_S = 10.0
"""An answer that is older is told to be old, on every page and by every command, and no act that raises is offered by
it."""

Question = TypeVar("Question", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Known(Generic[Value]):
    """An answer, when it was read (UTC), and why there is no newer one: "" where nothing is wrong.

    An answer older than `GREATEST_AGE_S` always has a problem.
    """

    value: Value
    read_at: datetime
    problem: str = ""

    @property
    def age_s(self) -> float:
        """How old the answer is, in seconds."""
        return max((datetime.now(UTC) - self.read_at).total_seconds(), 0.0)

    @property
    def old(self) -> str:
        """Since when nothing newer is known, and why, in words; "": nothing is wrong."""
        if not self.problem:
            return ""
        return f"this is from {self.read_at:%Y-%m-%d %H:%M:%S} UTC ({self.problem})"

    def with_age_of(self, *others: Known[Any]) -> Known[Value]:
        """Return the answer with the age and the problem of the oldest of all that a page is made of."""
        every = (self, *others)
        problem = next((one.problem for one in every if one.problem), "")
        aged = [one for one in every if one.problem] or list(every)
        return Known(self.value, min(one.read_at for one in aged), problem)


@dataclass
class _Entry(Generic[Value]):
    known: Known[Value] | None = None
    error: SlipwayError | None = None
    ended_at: float = float("-inf")
    began_at: float = float("-inf")
    running: threading.Event | None = None


@dataclass(frozen=True)
class Patience:
    """How long answers count and are waited for, in seconds.

    :param fresh_s: so long an answer is not asked for again.
    :param old_s: an answer up to this age is shown at once while a newer one is asked for; an older one is shown only
        where none comes in time.
    :param limit_s: nobody waits longer.
    """

    fresh_s: float = 5.0
    old_s: float = GREATEST_AGE_S
    limit_s: float = 3.0


class Answers(Generic[Question, Value]):
    """Answers to questions of one kind.

    :param ask: gets the answer; it may take long, and raise a `SlipwayError`.
    :param slots: how many questions may be under way, shared with others of the same store.
    :param most: answers that are kept.
    :param health: is notified whether the store answers. While it does not, nothing is asked of it here and nobody
        waits; once it answers again, everything is asked again.
    """

    def __init__(
        self,
        ask: Callable[[Question], Value],
        patience: Patience,
        slots: threading.BoundedSemaphore,
        *,
        most: int = 500,
        health: StoreHealth | None = None,
    ) -> None:
        self._ask = ask
        self._patience = patience
        self._slots = slots
        self._most = most
        self._health = StoreHealth() if health is None else health
        self._lock = threading.Lock()
        self._entries: OrderedDict[Question, _Entry[Value]] = OrderedDict()

    def get(self, question: Question, *, most_age_s: float | None = None) -> Known[Value]:
        """Return the answer that is known, the newest that comes within the limit.

        :param most_age_s: an older answer is not returned, whatever the store does; None: it is returned, with its age.
        :raises SlipwayError: none is known, or only an older one, and this is why.
        """
        began = time.monotonic()
        # A read that begins from now on is new enough, however long it takes.
        oldest = None if most_age_s is None else datetime.now(UTC) - timedelta(seconds=most_age_s)
        deadline = began + self._patience.limit_s
        while True:
            with self._lock:
                entry = self._entry(question)
                now = time.monotonic()
                if self._is_fresh(entry, began, now, oldest):
                    return self._answer(entry, oldest)
                is_failing = self._health.is_failing()
                if entry.running is None and not is_failing and self._slots.acquire(blocking=False):
                    self._begin(question, entry)
                if now >= deadline or self._is_vain(entry, now, oldest, is_failing=is_failing):
                    return self._answer(entry, oldest)
                running = entry.running
            if running is None:  # every slot is taken, or the store does not answer
                time.sleep(0.02)
            else:
                running.wait(max(deadline - time.monotonic(), 0.0))

    def ask(self, question: Question) -> None:
        """Have an answer got that is not fresh any more, and wait for nothing."""
        with self._lock:
            entry, now = self._entry(question), time.monotonic()
            if self._is_fresh(entry, now, now, None):
                return
            if entry.running is not None and now - entry.began_at >= self._patience.limit_s:
                self._health.silent_since(entry.began_at)
            if (
                entry.running is None
                and not self._health.is_failing()
                and self._slots.acquire(blocking=False)
            ):
                self._begin(question, entry)

    def _is_fresh(self, entry: _Entry[Value], began: float, now: float, oldest: datetime | None) -> bool:
        """Return whether what is known need not be asked for again."""
        if entry.known is None and entry.error is None:
            return False
        if entry.ended_at > began and entry.error is not None:
            return True
        if entry.error is not None and self._health.recovered_at > entry.ended_at:
            return False
        if oldest is not None and (entry.known is None or entry.known.read_at < oldest):
            return False
        if entry.ended_at > began:
            return True
        return now - entry.ended_at < self._patience.fresh_s

    def _is_vain(
        self, entry: _Entry[Value], now: float, oldest: datetime | None, *, is_failing: bool
    ) -> bool:
        """Return whether nobody need wait: what is known is young, or the store has failed or hangs.

        All pages of a process share its threads; a store that hangs must not have them wait one after another.
        """
        hangs = entry.running is not None and now - entry.began_at >= self._patience.limit_s
        if hangs:
            self._health.silent_since(entry.began_at)
        if entry.known is None:
            return hangs or self._health.has_failed_for(self._patience.limit_s)
        if oldest is not None:
            return hangs or is_failing
        return hangs or is_failing or entry.error is not None or entry.known.age_s <= self._patience.old_s

    def _entry(self, question: Question) -> _Entry[Value]:
        entry = self._entries.setdefault(question, _Entry())
        self._entries.move_to_end(question)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return entry

    def _begin(self, question: Question, entry: _Entry[Value]) -> None:
        entry.running, entry.began_at = threading.Event(), time.monotonic()
        threading.Thread(
            target=self._work, args=(question, entry), name="slipway read model", daemon=True
        ).start()

    def _work(self, question: Question, entry: _Entry[Value]) -> None:
        known: Known[Value] | None = None
        error: SlipwayError | None = None
        try:
            began = datetime.now(UTC)
            known = Known(self._ask(question), began)
        except SlipwayError as found:
            error = found
        except Exception as found:
            log.exception("the read model could not be read")
            error = StoreUnavailableError(
                "the content of this page could not be read",
                found=type(found).__name__,
                remedy="see the API server's log",
            )
        finally:
            self._slots.release()
            self._tell_health(error)
            with self._lock:
                entry.known, entry.error = known or entry.known, error
                entry.ended_at = time.monotonic()
                running, entry.running = entry.running, None
            if running is not None:
                running.set()

    def _tell_health(self, error: SlipwayError | None) -> None:
        """Tell whether the store has answered; an error that says nothing about that is ignored."""
        if error is None or isinstance(error, InputMissingError | UnknownModelError):
            self._health.answered()
        elif isinstance(error, TransientError):
            self._health.failed(error.in_short())

    def _answer(self, entry: _Entry[Value], oldest: datetime | None) -> Known[Value]:
        """Return what is known, with what is wrong."""
        problem = self._problem(entry)
        if entry.known is not None and (oldest is None or entry.known.read_at >= oldest):
            return Known(entry.known.value, entry.known.read_at, problem)
        if entry.error is not None and (entry.known is None or isinstance(entry.error, TransientError)):
            raise entry.error
        raise TimedOutError(
            "the object store does not answer",
            expected=f"an answer within {self._patience.limit_s:g} s",
            found=problem or "no answer yet",
            remedy="try again in a moment; check that the object store is reachable",
        )

    def _problem(self, entry: _Entry[Value]) -> str:
        """Return why there is no newer answer; "": nothing is wrong."""
        if entry.error is not None:
            return entry.error.in_short()
        waited_s = time.monotonic() - entry.began_at
        if entry.running is not None and waited_s >= self._patience.limit_s:
            return f"no answer for {waited_s:.0f} s"
        is_old = entry.known is None or entry.known.age_s > GREATEST_AGE_S
        return self._health.problem or ("a newer answer did not arrive in time" if is_old else "")
