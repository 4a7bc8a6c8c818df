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
from datetime import UTC, datetime
from typing import Generic, TypeVar

from include.model_release.errors import SlipwayError, StoreUnavailableError, TimedOutError

log = logging.getLogger(__name__)

Question = TypeVar("Question", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Known(Generic[Value]):
    """An answer, when it was read (UTC), and why there is no newer one: "" where nothing is wrong."""

    value: Value
    read_at: datetime
    problem: str = ""

    @property
    def age_s(self) -> float:
        """How old the answer is, in seconds."""
        return max((datetime.now(UTC) - self.read_at).total_seconds(), 0.0)


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
    old_s: float = 30.0
    limit_s: float = 3.0


class Answers(Generic[Question, Value]):
    """Answers to questions of one kind.

    :param ask: gets the answer; it may take long, and raise a `SlipwayError`.
    :param slots: how many questions may be under way, shared with others of the same store.
    :param most: answers that are kept.
    """

    def __init__(
        self,
        ask: Callable[[Question], Value],
        patience: Patience,
        slots: threading.BoundedSemaphore,
        *,
        most: int = 500,
    ) -> None:
        self._ask = ask
        self._patience = patience
        self._slots = slots
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[Question, _Entry[Value]] = OrderedDict()

    def get(self, question: Question) -> Known[Value]:
        """Return the answer that is known, the newest that comes within the limit.

        :raises SlipwayError: none is known, and this is why.
        """
        began = time.monotonic()
        deadline = began + self._patience.limit_s
        while True:
            with self._lock:
                entry = self._entry(question)
                now = time.monotonic()
                is_fresh = entry.ended_at > began or now - entry.ended_at < self._patience.fresh_s
                if is_fresh and (entry.known is not None or entry.error is not None):
                    return self._told(entry)
                if entry.running is None and self._slots.acquire(blocking=False):
                    self._begin(question, entry)
                if now >= deadline or self._is_vain(entry, now):
                    return self._told(entry)
                running = entry.running
            if running is None:  # every slot is taken
                time.sleep(0.02)
            else:
                running.wait(max(deadline - time.monotonic(), 0.0))

    def _is_vain(self, entry: _Entry[Value], now: float) -> bool:
        """Return whether nobody need wait: what is known is young, or the store has failed or hangs.

        All pages of a process share its threads; a store that hangs must not have them wait one after another.
        """
        hangs = entry.running is not None and now - entry.began_at >= self._patience.limit_s
        if entry.known is None:
            return hangs
        return hangs or entry.error is not None or entry.known.age_s <= self._patience.old_s

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
                "what is shown here could not be read",
                found=type(found).__name__,
                remedy="see the API server's log",
            )
        finally:
            self._slots.release()
            with self._lock:
                entry.known, entry.error = known or entry.known, error
                entry.ended_at = time.monotonic()
                running, entry.running = entry.running, None
            if running is not None:
                running.set()

    def _told(self, entry: _Entry[Value]) -> Known[Value]:
        """Return what is known, with what is wrong."""
        waited_s = time.monotonic() - entry.began_at
        is_late = entry.running is not None and waited_s >= self._patience.limit_s
        late = f"no answer for {waited_s:.0f} s" if is_late else ""
        if entry.known is not None:
            problem = entry.error.in_short() if entry.error is not None else late
            return Known(entry.known.value, entry.known.read_at, problem)
        if entry.error is not None:
            raise entry.error
        raise TimedOutError(
            "the object store does not answer",
            expected=f"an answer within {self._patience.limit_s:g} s",
            found=late or "no answer yet",
            remedy="load the page again; see whether the object store can be reached",
        )
