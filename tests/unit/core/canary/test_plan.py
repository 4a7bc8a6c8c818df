from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.plan import decide, exposure_spent, wants_golden_replay
from slipway_core.canary.verdict import Verdict
from slipway_core.errors import SpecError
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.rollout.plan import CanaryPlan, Exposure, RolloutStep

STEP = RolloutStep(weight=5, bake_s=20)
PLAN = CanaryPlan((STEP, RolloutStep(weight=50, bake_s=20)), max_bake_s=60.0, on_inconclusive="golden_replay")
QUIET = Window(10.0, Sample(200, 0), Sample(1, 0))
BUSY = Window(10.0, Sample(900, 0), Sample(60, 0))
STRANGE = Window(10.0, Sample(950, 0), Sample(60, 3))


def verdict_on(*windows: Window | str) -> Verdict:
    """The verdict on some windows; text is a window in which the source was away."""
    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(STEP.weight, STEP.bake_s)
    for window in windows:
        seen = judge.observe_failure(window) if isinstance(window, str) else judge.observe(window)
    return seen


def test_too_little_traffic_after_the_bake_wants_a_golden_replay() -> None:
    """Not before the bake is over: users may still come."""
    verdict = verdict_on(QUIET, QUIET)
    assert not wants_golden_replay(verdict, 19.9, STEP, PLAN)
    assert wants_golden_replay(verdict, 20.0, STEP, PLAN)


def test_a_stable_version_without_users_is_replayed_to_too() -> None:
    """At 99 percent it is stable that there is too little of to compare with."""
    verdict = verdict_on(
        Window(10.0, Sample(2, 0), Sample(200, 0)), Window(10.0, Sample(2, 0), Sample(200, 0))
    )
    assert wants_golden_replay(verdict, 20.0, STEP, PLAN)


def test_it_goes_on_until_the_judge_can_tell() -> None:
    """Replays that made up the minimum and look suspicious are followed by more."""
    doubtful = Window(10.0, Sample(50, 0), Sample(50, 4), "replay")
    verdict = verdict_on(QUIET, QUIET, doubtful)
    assert "Suspicious" in verdict.reason
    assert wants_golden_replay(verdict, 30.0, STEP, PLAN)
    clean = Window(10.0, Sample(50, 0), Sample(50, 0), "replay")
    assert not wants_golden_replay(verdict_on(QUIET, QUIET, clean), 30.0, STEP, PLAN)


@pytest.mark.parametrize(
    "windows",
    [(STRANGE, STRANGE), (BUSY, BUSY), (QUIET, "away"), ("away",)],
    ids=["doubt", "pass", "no data", "nothing but no data"],
)
def test_what_is_not_for_want_of_requests_is_not_replayed_for(windows: tuple[Window | str, ...]) -> None:
    """Doubt among enough of users' requests, a pass, and a source that is away are no matter of traffic."""
    assert not wants_golden_replay(verdict_on(*windows), 40.0, STEP, PLAN)


def test_only_the_plan_that_says_so_replays() -> None:
    """With hold and rollback nothing is replayed, nor while a person holds the step."""
    verdict = verdict_on(QUIET, QUIET)
    assert not wants_golden_replay(verdict, 40.0, STEP, replace(PLAN, on_inconclusive="rollback"))
    assert not wants_golden_replay(verdict, 40.0, STEP, replace(PLAN, on_inconclusive="hold"))
    assert not wants_golden_replay(verdict, 40.0, STEP, PLAN, held=True)


def test_a_golden_replay_that_does_not_help_ends_in_a_rollback() -> None:
    """When the time is up and it still cannot be told, the users are taken back."""
    verdict = verdict_on(QUIET, QUIET)
    assert decide(verdict, 59.0, STEP, PLAN) == "continue"
    assert decide(verdict, 60.0, STEP, PLAN) == "roll_back"
    assert decide(verdict_on(*["away"] * 3), 5.0, STEP, PLAN) == "roll_back"


def test_replays_spend_nothing_of_the_budget() -> None:
    """The exposure that a plan allows is that of users."""
    bad = Window(10.0, Sample(50, 0), Sample(50, 2), "replay")
    plan = replace(PLAN, exposure=Exposure(max_requests=10, max_errors=1))
    assert exposure_spent(verdict_on(QUIET, QUIET, bad), plan) is None
    assert exposure_spent(verdict_on(BUSY), plan) is not None


def release_file(rollout: str) -> str:
    return f"model: digits\nsource: {{format: onnx}}\nrollout:\n  on_inconclusive: golden_replay\n{rollout}"


def test_the_release_file_says_how_to_replay() -> None:
    """The policy and its settings come from `rollout`."""
    rollout = parse_release_spec(
        release_file("  golden_replay: {requests_per_s: 4}\n"), "digits.yaml"
    ).rollout
    assert rollout.golden_replay.requests_per_s == 4
    assert rollout.plan.on_inconclusive == "golden_replay"


def test_queries_that_may_count_replays_among_users_are_refused() -> None:
    """Where Prometheus is asked, a person has to say that the queries leave the revisions' own URLs out."""
    metrics = "  metrics: {source: prometheus, queries: knative}\n"
    with pytest.raises(SpecError, match="metrics_see_users_only"):
        parse_release_spec(release_file(metrics), "digits.yaml")
    trusted = metrics + "  golden_replay: {metrics_see_users_only: true}\n"
    assert parse_release_spec(
        release_file(trusted), "digits.yaml"
    ).rollout.golden_replay.metrics_see_users_only


def test_the_examples_of_the_documentation_are_release_files() -> None:
    """docs/canary.md: both examples of a golden replay are read, queries included, and that of streams."""
    text = (Path(__file__).parents[4] / "docs" / "canary.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    specs = [
        parse_release_spec(f"model: digits\nsource: {{format: onnx}}\n{one}", "doc.yaml") for one in examples
    ]
    told = [(spec.rollout.on_inconclusive, spec.rollout.streaming.protocol) for spec in specs]
    assert told == [("golden_replay", None), ("golden_replay", None), ("rollback", "grpc")]
