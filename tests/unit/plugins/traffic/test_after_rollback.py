"""What is counted of users who still reach the candidate after weight 0, by sources that are well, late, or gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from slipway.traffic import after_rollback
from slipway.traffic.after_rollback import NO_DATA, AfterRollback, RequestsAfter
from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.samples import Counters, Reading

CANDIDATE = "digits-predictor-00002"


class Source:
    """Counts `per_s` requests a second to the candidate; its data are `lag_s` old."""

    interval_s = 0.01

    def __init__(self, per_s: float = 0.0, lag_s: float = 0.0) -> None:
        self.per_s, self.lag_s = per_s, lag_s
        self.is_away = False
        self.has_answered = threading.Event()
        self._began = time.time()

    def read(self, revisions: Iterable[str]) -> dict[str, Reading]:
        """The counts of now."""
        if self.is_away:
            raise MetricsUnavailableError("nobody there")
        at = time.time() - self.lag_s
        self.has_answered.set()
        return {one: Reading.of(at, {"router": Counters(self._count(at), 0)}) for one in revisions}

    def _count(self, at: float) -> int:
        return 100 + round(self.per_s * (at - self._began + 10))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(after_rollback, "SHORTEST_S", 0.05)
    monkeypatch.setattr(after_rollback, "WAIT_LIMIT_S", 0.5)
    monkeypatch.setattr(after_rollback, "_POLL_S", 0.01)


def looked(source: Source) -> RequestsAfter | None:
    """Look while a rollback would go on."""
    after = AfterRollback(lambda: source)
    after.begin(CANDIDATE, datetime.now(UTC))
    if not source.is_away:
        assert source.has_answered.wait(5)
    return after.end()


def test_no_request_after_weight_0_is_told_with_its_time() -> None:
    """The counts before weight 0 are none of it."""
    seen = looked(Source())
    assert seen is not None
    assert (seen.requests, seen.seconds >= 0.05) == (0, True)


def test_requests_that_still_come_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A router that goes on as before is seen, and logged."""
    seen = looked(Source(per_s=1000.0))
    assert seen is not None
    assert seen.requests
    assert seen.requests == pytest.approx(1000 * seen.seconds, rel=0.2, abs=3)
    assert "still led" in caplog.text


def test_a_clock_that_was_set_hides_no_request() -> None:
    """Data of the moment that are read after weight 0 are from after it, by whatever clock they are dated."""

    class Dated(Source):
        def read(self, revisions: Iterable[str]) -> dict[str, Reading]:
            return {
                name: Reading.of(one.at - 600.0, {"router": one.totals()})
                for name, one in super().read(revisions).items()
            }

    seen = looked(Dated(per_s=1000.0))
    assert seen is not None
    assert seen.requests


def test_data_from_before_weight_0_are_no_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that lags must first show data from after weight 0; with none in time there are no data."""
    monkeypatch.setattr(after_rollback, "CLOCK_DIFFERENCE_S", 0.0)
    assert looked(Source(per_s=1000.0, lag_s=60.0)) == NO_DATA


def test_a_source_that_is_away_gives_no_data() -> None:
    """It raises nothing, and is over within its limit."""
    source = Source()
    source.is_away = True
    assert looked(source) == NO_DATA


def test_a_connection_that_cannot_be_used_gives_no_data() -> None:
    """What making the source raises holds no rollback up."""

    def broken() -> Source:
        raise RuntimeError("no such connection")

    after = AfterRollback(broken)
    after.begin(CANDIDATE, datetime.now(UTC))
    assert after.end() == NO_DATA


def test_a_source_that_hangs_holds_nothing_up() -> None:
    """Neither the beginning nor, beyond its limit, the end waits for an answer."""
    source, hang = Source(), threading.Event()
    source.read = lambda revisions: hang.wait(30) and {}  # type: ignore[method-assign, assignment, return-value]
    after = AfterRollback(lambda: source)
    began = time.monotonic()
    after.begin(CANDIDATE, datetime.now(UTC))
    assert time.monotonic() - began < 5
    assert after.end() == NO_DATA
    assert time.monotonic() - began < 10
    hang.set()


def test_where_nobody_began_nothing_is_told() -> None:
    """A rollback that found no candidate has nothing to look for."""
    assert AfterRollback(Source).end() is None
