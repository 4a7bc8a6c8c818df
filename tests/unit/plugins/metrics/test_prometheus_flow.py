"""A router's series in Prometheus: what began and was never answered, process by process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.queries import QuerySet
from slipway_core.metrics.samples import Sample, reading_delta
from tests.support.plugins.prometheus_double import Connect, Prometheus, connected, series

QUERIES = QuerySet(
    "A router's.",
    requests=('rq{rev="{revision}"}',),
    errors=('rq{rev="{revision}",code="503"}',),
    begun=('rq_total{rev="{revision}"}',),
    retried=('rq_retry{rev="{revision}"}',),
    active=('rq_active{rev="{revision}"}',),
    ageless=("kind", "grpc"),
)


@pytest.fixture
def prometheus() -> Prometheus:
    """A Prometheus without any series yet."""
    return Prometheus()


@pytest.fixture
def connect(prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Makes the hook on that Prometheus."""
    with connected(prometheus, monkeypatch, QUERIES) as make:
        yield make


Looks = list[tuple[float, int, int, int, int]]


def router(looks: Looks, name: str = "a", kind: str = "http") -> list[dict[str, Any]]:
    """One process; looks are (seconds ago, begun, retried, active, answered)."""
    labels = {"rev": "new", "instance": f"{name}:9901", "kind": kind}

    def one(metric: str, place: int, **more: str) -> dict[str, Any]:
        return series(metric, *((look[0], str(look[place])) for look in looks), **labels, **more)

    return [
        one("rq_total", 1),
        one("rq_retry", 2),
        one("rq_active", 3),
        one("rq", 4, code="200"),
    ]


def counted(hook: Any, prometheus: Prometheus, *shown: list[dict[str, Any]]) -> Sample:
    """What one revision counted between the last two of some readings."""
    known = None
    for one in shown:
        prometheus.series = one
        found = hook.read(["new"])["new"]
        known, before = (found if known is None else found.remembering(known)), known
    assert known is not None
    assert before is not None
    return reading_delta(before, known)


def test_what_began_and_was_not_answered_is_an_error(connect: Connect, prometheus: Prometheus) -> None:
    """A retried attempt is answered by the one that follows; what is active may still be answered."""
    before = router([(45, 90, 0, 0, 90), (31, 100, 0, 0, 100)])
    after = router([(31, 100, 0, 0, 100), (15, 150, 10, 20, 120), (1, 200, 20, 5, 145)])
    assert counted(connect(), prometheus, before, after) == Sample(75, 30, {}, 30, begun=80, active=5)


def test_each_process_is_reset_by_itself(connect: Connect, prometheus: Prometheus) -> None:
    """One router is started anew between two samples: what it had counted before its end is counted."""
    before = [*router([(31, 100, 0, 0, 100)]), *router([(31, 500, 0, 0, 500)], "b")]
    after = [
        *router([(31, 100, 0, 0, 100), (15, 140, 0, 0, 130), (1, 30, 0, 3, 25)]),
        *router([(31, 500, 0, 0, 500), (15, 550, 0, 0, 550), (1, 600, 0, 0, 600)], "b"),
    ]
    found = counted(connect(), prometheus, before, after)
    assert (found.unanswered, found.begun, found.active) == (10 + 2, 40 + 30 + 100, 3)


def test_a_code_of_the_process_before_is_none_of_the_new_one(
    connect: Connect, prometheus: Prometheus
) -> None:
    """After a restart there is no error yet; those of the process before are still in the range, and counted once."""
    old = series("rq", (45, "40"), (31, "50"), rev="new", instance="a:9901", kind="http", code="503")
    before = [*router([(45, 140, 0, 0, 100), (31, 150, 0, 0, 100)]), old]
    after = [*router([(31, 150, 0, 0, 100), (15, 4, 0, 0, 4), (1, 9, 0, 0, 9)]), old]
    assert counted(connect(), prometheus, before, after) == Sample(9, 0, {}, 0, begun=9, active=0)


def test_a_scrape_between_two_queries_is_not_a_loss(connect: Connect, prometheus: Prometheus) -> None:
    """What began is seen a scrape later than what was answered: that scrape waits for the next reading."""
    before = router([(45, 90, 0, 0, 90), (31, 100, 0, 0, 100)])
    after = router([(31, 100, 0, 0, 100), (15, 150, 0, 0, 150), (1, 200, 0, 0, 200)])
    after[3]["values"].pop()
    assert counted(connect(), prometheus, before, after) == Sample(50, 0, {}, 0, begun=50, active=0)


@pytest.mark.parametrize(("kind", "overdue"), [("http", 8), ("grpc", 0)])
def test_an_open_call_that_may_be_a_stream_has_no_age(
    kind: str, overdue: int, connect: Connect, prometheus: Prometheus
) -> None:
    """Of what is active for more than 30 s, HTTP requests count as unanswered, and gRPC calls do not."""
    before = router([(45, 90, 0, 0, 90), (40, 100, 0, 8, 92)], kind=kind)
    after = router([(40, 100, 0, 8, 92), (20, 100, 0, 8, 92), (1, 100, 0, 8, 92)], kind=kind)
    found = counted(connect(), prometheus, before, after)
    assert (found.active, found.unanswered, found.errors) == (8, overdue, overdue)


def test_answers_without_what_began_are_no_data(connect: Connect, prometheus: Prometheus) -> None:
    """A router whose counter of attempts is not kept would hide what is never answered; the remedy is named."""
    prometheus.series = router([(31, 100, 0, 0, 100), (1, 140, 0, 0, 130)])[-1:]
    with pytest.raises(MetricsUnavailableError, match=r"does not show which requests began.*overrides"):
        connect().read(["new"])


def test_where_nobody_asked_nothing_is_missed(connect: Connect, prometheus: Prometheus) -> None:
    """A router that has counted nothing yet."""
    prometheus.series = [series("rq", (31, "0"), (1, "0"), rev="new", instance="a:9901", code="200")]
    assert connect().read(["new"])["new"].totals().requests == 0
