"""Whether the parts answer that a release needs: Airflow's own, the object store, staging.

Each part is asked in a thread of its own, while pages are looked at. Nobody waits for an answer: a page shows what was
found last, and a part that hangs is one that has not answered since its last answer. The object store's health comes
from the reads that the pages are made of.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slipway.read_model.store_health import StoreHealth

log = logging.getLogger(__name__)

EVERY_S = 5.0
"""How often a part is asked while pages are looked at."""
SILENT_AFTER_S = 10.0
"""A question that has no answer after so long counts as not answered."""


@dataclass(frozen=True)
class Answer:
    """What a part was found to be.

    :param at: when it answered last, or gave its last heartbeat (UTC); None: it never did.
    :param problem: what is wrong with it, as the end of a sentence; "": nothing.
    """

    at: datetime | None
    problem: str = ""


@dataclass(frozen=True)
class Part:
    """A part in the header.

    :param sentence: a sentence where something is wrong with it; "" where nothing is.
    """

    name: str
    sentence: str = ""


@dataclass(frozen=True)
class Health:
    """All parts; `is_known` is false until each of them was asked once."""

    parts: tuple[Part, ...]
    is_known: bool = True

    @property
    def wrong(self) -> tuple[Part, ...]:
        """The parts with which something is wrong."""
        return tuple(one for one in self.parts if one.sentence)


class _Question:
    """One question, of which at most one is under way; a hung one counts as not answered after the limit."""

    def __init__(self, ask: Callable[[], Mapping[str, Answer]], names: tuple[str, ...]) -> None:
        self._ask, self.names = ask, names
        self._lock = threading.Lock()
        self._found: Mapping[str, Answer] = {}
        self._answered_at: datetime | None = None
        self._began = float("-inf")
        self._hangs_since: datetime | None = None
        self._running = False

    def look(self) -> Mapping[str, Answer] | None:
        """Return what was found last, and ask again where that is due; None: nothing was found yet."""
        with self._lock:
            now = time.monotonic()
            if not self._running and now - self._began >= EVERY_S:
                self._began, self._running = now, True
                threading.Thread(target=self._work, name="slipway health", daemon=True).start()
            hangs = self._running and now - self._began >= SILENT_AFTER_S
            if hangs:
                return {name: Answer(self._last(name), "does not answer") for name in self.names}
            return self._found or None

    def _last(self, name: str) -> datetime | None:
        known = self._found.get(name)
        return self._answered_at if known is None or not known.problem else known.at

    def _work(self) -> None:
        try:
            found = self._ask()
        except Exception as error:  # whatever it is, the part has not answered
            log.info("a part does not answer: %s", type(error).__name__)
            with self._lock:
                found = {name: Answer(self._last(name), "does not answer") for name in self.names}
        with self._lock:
            self._found, self._running = found, False
            if not any(one.problem for one in found.values()):
                self._answered_at = datetime.now(UTC)


class HealthWatch:
    """What the header shows.

    :param asked: for each question the names of the parts that it is about, and who asks it.
    :param store: the object store's health; None: it is not shown.
    """

    def __init__(
        self,
        asked: Mapping[tuple[str, ...], Callable[[], Mapping[str, Answer]]],
        store: Callable[[], StoreHealth | None] = lambda: None,
    ) -> None:
        self._asked = [_Question(ask, names) for names, ask in asked.items()]
        self._store = store

    def look(self) -> Health:
        """Return what is known now; it waits for nothing."""
        parts: list[Part] = []
        is_known = True
        now = datetime.now(UTC)
        for one in self._asked:
            found = one.look()
            is_known = is_known and found is not None
            for name in one.names:
                answer = None if found is None else found.get(name)
                parts.append(Part(name, "" if answer is None else sentence(name, answer, now)))
        store = self._store()
        if store is not None:
            store.is_failing()  # so that somebody finds out when it is back
            problem = Answer(store.answered_at, "does not answer" if store.problem else "")
            parts.append(Part("object store", sentence("object store", problem, now)))
        return Health(tuple(parts), is_known)


def sentence(name: str, answer: Answer, now: datetime) -> str:
    """Return what is wrong with a part, as a sentence; "" for nothing."""
    if not answer.problem:
        return ""
    if answer.problem != "does not answer":
        return f"{name} {answer.problem}"
    if answer.at is None:
        return f"{name} has not answered"
    day = "" if now - answer.at < timedelta(hours=12) else f"{answer.at:%Y-%m-%d} "
    return f"{name} has not answered since {day}{answer.at:%H:%M:%S} UTC"
