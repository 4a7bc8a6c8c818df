"""The axis of time that charts of a canary are drawn along, and the windows as points on it."""

from __future__ import annotations

import pytest

from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.timeline import LEAST_REQUESTS, TimeAxis, points_of
from slipway_core.spec.rollout.plan import RolloutStep
from slipway_sandbox.lab.simulation.recorded_canary import Story, Traffic


@pytest.mark.parametrize("rps", [0.0, 2.0, 500.0])
def test_points_hold_every_request_once(rps: float) -> None:
    """Windows taken together lose nothing, hold enough requests where the stretch has them, and stay in it."""
    story = Story()
    story.canary(
        Traffic(rps=rps, no_data_s=[(300, 340)]),
        [RolloutStep(weight=5, bake_s=1500), RolloutStep(weight=20, bake_s=1500)],
        max_no_data_windows=9,
        max_bake_s=3600.0,
    )
    (run,) = canary_evidence(story.events, story.policy).runs
    axis = TimeAxis.of(run)
    points, pooled = points_of(run.windows, axis)
    assert pooled
    assert len(points) <= 160 + 3
    for revision in ("stable", "candidate"):
        counted = sum(getattr(point, revision).requests for point in points)
        assert counted == getattr(run.totals, f"{revision}_requests")
    edges = [*axis.marks_s[1:], *(began for began, _ in axis.no_data_s)]
    assert all(not point.began_s < edge < point.ended_s for point in points for edge in edges)
    few = [point for point in points if point.fewest < LEAST_REQUESTS]
    assert len(few) <= (3 if rps == 0 else 0)
