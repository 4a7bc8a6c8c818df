"""Airflow's metrics: nothing about them fails a release, or keeps it waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from airflow.sdk.observability import stats

from slipway.airflow_stats import AirflowStats
from slipway_core.monitoring.moments import CONCLUDED, LEAD_TIME, OBSERVED

TOLD = (
    CONCLUDED.of("digits", outcome="promoted"),
    OBSERVED.of("digits", 0.5),
    LEAD_TIME.of("digits", 1500.0),
)


class Backend:
    """A backend of Airflow's metrics that keeps what it is told, breaks or hangs."""

    def __init__(self, *, breaks: bool = False, hangs: threading.Event | None = None) -> None:
        self.sent: list[tuple[object, ...]] = []
        self.calls = 0
        self._breaks = breaks
        self._hangs = hangs

    def _take(self, name: str, value: object, tags: dict[str, str]) -> None:
        self.calls += 1
        if self._hangs is not None:
            self._hangs.wait()
        if self._breaks:
            raise OSError("no route to host")
        self.sent.append((name, value, tags))

    def incr(self, stat: str, count: int = 1, *, tags: dict[str, str]) -> None:
        self._take(stat, count, tags)

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        self._take(stat, value, tags)

    def timing(self, stat: str, dt: float, *, tags: dict[str, str]) -> None:
        self._take(stat, dt, tags)


@pytest.fixture(autouse=True)
def restored_stats() -> Iterator[None]:
    """Airflow's metrics are off again afterwards."""
    yield
    use(None)


def use(backend: Backend | None) -> None:
    """Have Airflow's metrics lead to a backend; None: to none."""
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

    factory = NoStatsLogger if backend is None else (lambda: backend)
    stats.initialize(factory=factory, export_legacy_names=True)  # type: ignore[arg-type]


def test_each_measurement_reaches_airflow_as_its_kind() -> None:
    """Counter, gauge and timer, each with its tags."""
    backend = Backend()
    use(backend)
    AirflowStats().tell(TOLD)
    assert backend.sent == [
        ("slipway.releases", 1, {"model": "digits", "outcome": "promoted"}),
        ("slipway.candidate_weight_observed_ratio", 0.5, {"model": "digits"}),
        ("slipway.lead_time_ms", 1500.0, {"model": "digits"}),
    ]


def test_a_backend_that_breaks_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Each failure is one line of the log."""
    backend = Backend(breaks=True)
    use(backend)
    AirflowStats().tell(TOLD)
    assert backend.calls == 3
    assert caplog.text.count("no route to host") == 3


def test_a_backend_that_hangs_is_waited_for_once(caplog: pytest.LogCaptureFixture) -> None:
    """After the limit the release goes on, and is not kept waiting again."""
    released = threading.Event()
    backend = Backend(hangs=released)
    use(backend)
    told = AirflowStats(limit_s=0.2)
    try:
        began = time.monotonic()
        for _ in range(20):
            told.tell(TOLD)
        assert time.monotonic() - began < 3
        assert backend.calls == 1
        assert "are turned off" in caplog.text
    finally:
        released.set()


def test_nothing_to_tell_asks_nobody() -> None:
    """An event without a metric costs no thread."""
    backend = Backend()
    use(backend)
    AirflowStats().tell(())
    assert backend.calls == 0
