"""What a reading must show, what a source does not see, and what must be counted of planted faults."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from slipway_core.doctor.line import Status
from slipway_core.doctor.metrics import (
    PlantedCounts,
    planted_findings,
    reading_findings,
    visibility_findings,
)
from slipway_core.metrics.counters import Counters
from slipway_core.metrics.request_flow import RequestFlow
from slipway_core.metrics.samples import Reading
from slipway_core.spec.release_file import ReleaseSpec, release_spec_of

FLOW = RequestFlow(begun=100, active=0, lost=0, timed_begun=100, timed_active=0, limit_s=30.0)
WELL = Counters(100, 1, {10.0: 90, math.inf: 10}, FLOW)


def spec(**rollout: Any) -> ReleaseSpec:
    """Return a small release file."""
    return release_spec_of({"model": "digits", "source": {"format": "onnx"}, "rollout": rollout}, "a test")


def statuses(counters: Counters) -> list[Status]:
    """Return what a reading of one series comes to."""
    return [one.status for one in reading_findings("metrics", spec(), Reading.of(1.0, {"a": counters}))]


def test_a_reading_with_everything_is_well() -> None:
    """Requests, latencies, and what has begun."""
    assert statuses(WELL) == [Status.OK] * 3


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        (Counters(0, 0, {}, FLOW), [Status.UNKNOWN]),
        (replace(WELL, latency_buckets={}), [Status.OK, Status.WARNING, Status.OK]),
        (replace(WELL, flow=None), [Status.OK, Status.OK, Status.WARNING]),
    ],
    ids=["no request", "no bucket", "no beginning"],
)
def test_each_part_that_is_lacking_is_found(counters: Counters, expected: list[Status]) -> None:
    """A revision that nobody has asked shows no label, so nothing is known of it."""
    assert statuses(counters) == expected


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"source": "scrape"}, [Status.OK]),
        ({"source": "prometheus", "queries": "knative"}, [Status.WARNING]),
        (
            {"source": "prometheus", "overrides": {
                "requests": 'a_total{r="{revision}"}', "errors": 'a_total{r="{revision}",code="500"}'}},
            [Status.WARNING, Status.UNKNOWN],
        ),
    ],
    ids=["scrape", "knative", "own"],
)  # fmt: skip
def test_what_a_source_does_not_see_is_said(metrics: dict[str, Any], expected: list[Status]) -> None:
    """Of selectors that people wrote nobody knows."""
    found = visibility_findings("digits", spec(metrics=metrics))
    assert [one.status for one in found] == expected


@pytest.mark.parametrize(
    ("change", "errors", "hang"),
    [
        ({}, Status.OK, Status.OK),
        ({"errors": 1}, Status.FAILED, Status.OK),
        ({"errors": 3, "unanswered": 0}, Status.OK, Status.FAILED),
        ({"hung": "200"}, Status.OK, Status.UNKNOWN),
    ],
    ids=["well", "errors", "hang", "answered"],
)
def test_each_planted_fault_must_be_counted(change: dict[str, Any], errors: Status, hang: Status) -> None:
    """A hang that something answers proves nothing."""
    counts = replace(PlantedCounts(3, ("500",), "no answer", errors=4, unanswered=1), **change)
    assert [one.status for one in planted_findings("`scrape`", counts)] == [errors, hang]
