"""Windows in which the cluster took a pod of the candidate away."""

from __future__ import annotations

import json

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.recordings import replay
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy

CLEAN = Window(10, Sample(400, 0), Sample(100, 0))
FAILING = Window(10, Sample(400, 0), Sample(100, 60))
LOST = Window(10, Sample(400, 0), Sample(100, 60), disruption="digits-1: NodeLost")


def judge(grace: int = 3) -> CanaryJudge:
    """A judge whose step has begun."""
    made = CanaryJudge(AnalysisPolicy(disruption_grace_windows=grace))
    made.begin_step(20, 60)
    return made


def test_a_lost_node_is_held_not_failed() -> None:
    """The window is named and counted beside what is judged; what follows decides."""
    made = judge()
    made.observe(CLEAN)
    held = made.observe(LOST)
    assert held.status == "inconclusive"
    assert "digits-1: NodeLost" in held.reason
    assert (made.unjudged.candidate_requests, made.unjudged.candidate_errors) == (100, 60)
    assert held.statistics.step.seconds == 10
    for _ in range(6):
        verdict = made.observe(CLEAN)
    assert verdict.status == "pass"


def test_the_same_errors_without_a_lost_node_fail() -> None:
    """The excuse is the cluster's word about this window, no softer threshold."""
    made = judge()
    made.observe(CLEAN)
    made.observe(FAILING)
    assert made.observe(FAILING).status == "fail"


def test_an_excuse_is_believed_for_some_windows_of_a_step() -> None:
    """A candidate that fails on and on is judged, whatever its pods say."""
    made = judge(grace=2)
    assert [made.observe(LOST).status for _ in range(2)] == ["inconclusive"] * 2
    for _ in range(2):
        verdict = made.observe(LOST)
    assert verdict.status == "fail"
    none = judge(grace=0)
    none.observe(LOST)
    assert none.observe(LOST).status == "fail"


def test_the_count_of_excuses_outlives_a_restart_and_a_replay() -> None:
    """A saved judge, and a recording that is judged again, come to the same verdicts."""
    made = judge(grace=1)
    made.observe(LOST)
    made = CanaryJudge.from_json(made.to_json())
    made.observe(LOST)
    assert made.observe(LOST).status == "fail"
    lines = [
        json.dumps({"policy": made.policy.to_dict()}),
        json.dumps({"step": {"weight": 20, "bake_s": 60}}),
    ]
    lines += [json.dumps({"window": Window.from_dict(LOST.to_dict()).to_dict()})] * 3
    verdicts = [verdict for _, verdict in replay(lines, "test")]
    assert "NodeLost" in verdicts[0].reason
    assert verdicts[-1].status == "fail"
