"""What a trial costs, and whether it keeps the service level."""

from __future__ import annotations

import pytest

from slipway_core.spec.load import LoadLevel
from slipway_core.tuning.objective import Objective
from tests.support.tuning.plans import make_plan, point


def objective(**tuning: object) -> Objective:
    """The objective of a plan."""
    plan = make_plan(**tuning)  # type: ignore[arg-type]
    return Objective(plan.tuning, plan.slo)


def test_latency_costs_the_median_of_the_rounds() -> None:
    """One disturbed round does not decide; the cost is known after each."""
    measured = [point(10.0, 1), point(90.0, 2), point(12.0, 3)]
    assert objective().costs(measured) == [10.0, 50.0, 12.0]
    assert objective().loads() == (LoadLevel(request_rate_rps=100.0),)
    assert objective().figure == "p95_ms"


def test_throughput_counts_where_the_bound_is_kept() -> None:
    """Of a round's loads the one with the most answers within the bound counts; a bound kept nowhere costs most."""
    wanted = objective(objective="throughput", latency_max_ms=20.0, concurrencies=[4, 1])
    assert [load.concurrency for load in wanted.loads()] == [1, 4]
    points = [
        point(5.0, throughput_rps=100.0),
        point(15.0, throughput_rps=300.0),
        point(40.0, throughput_rps=900.0),
    ]
    assert wanted.costs(points) == [-300.0]
    assert wanted.costs([point(40.0), point(60.0)]) == [2.0]
    assert wanted.costs([point(5.0, errors=4)]) == [0.0]
    assert wanted.misses(points) == ()
    assert "the bound is 20 ms" in wanted.misses([point(40.0)])[0]


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        ([point(90.0)], "p99 is 108 ms"),
        ([point(9.0, errors=1)], "0.25 % of the requests failed"),
        ([point(9.0, throughput_rps=80.0)], "does not keep up"),
        ([], "nothing was measured"),
    ],
)
def test_a_missed_service_level_is_told(measured: list[object], told: str) -> None:
    """p99, failed requests, and a rate that the server does not keep up with."""
    (found,) = objective().misses(measured)  # type: ignore[arg-type]
    assert told in found
