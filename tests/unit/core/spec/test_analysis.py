"""`rollout.analysis` of the release file is the policy of the canary's judge."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.canary import AnalysisPolicy, CanaryJudge, Sample, Window
from slipway_core.errors import SpecError
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.spec.rollout.plan import CanaryPlan
from tests.support.examples import examples

_EDGES = (
    -1,
    0,
    1,
    50,
    89.9,
    90,
    90.5,
    95,
    100,
    101,
    1000,
    1001,
    1_000_000,
    1_000_001,
    1e12,
    1e13,
    True,
    None,
    "1",
)
VALUES = (
    st.sampled_from(_EDGES)
    | st.floats(0, 1)
    | st.floats(-10, 1e13, allow_nan=False)
    | st.integers(-10, 2_000_000)
)
POLICIES = st.dictionaries(st.sampled_from([*AnalysisPolicy.model_fields]), VALUES, max_size=4)


def by_release_file(values: dict[str, Any]) -> AnalysisPolicy | None:
    """The policy as a release file gives it; None: the file is refused."""
    file = {"model": "digits", "source": {"format": "onnx"}, "rollout": {"analysis": values}}
    try:
        return parse_release_spec(json.dumps(file), "digits.yaml").rollout.analysis
    except SpecError:
        return None


def by_hand(values: dict[str, Any]) -> AnalysisPolicy | None:
    """The policy as a recording gives it; None: it is refused."""
    try:
        return AnalysisPolicy.from_mapping(values)
    except SpecError:
        return None


@settings(max_examples=examples(75), deadline=None)
@given(POLICIES)
def test_the_release_file_and_the_judge_take_the_same_policies(values: dict[str, Any]) -> None:
    """What passes the one check passes the other with the same values, and the judge judges by it."""
    of_file, of_hand = by_release_file(values), by_hand(values)
    assert of_file == of_hand
    if of_file is None:
        return
    judge = CanaryJudge.from_json(CanaryJudge(of_file).to_json())
    assert judge.policy == of_file
    verdict = judge.observe(Window(10.0, Sample(100, 1), Sample(100, 1)))
    assert verdict.statistics.threshold == 1 / of_file.alpha


def test_a_margin_that_the_judge_refuses_is_refused_in_the_release_file() -> None:
    """A margin of 95 percent would let nearly everything fail: no gate is run for it."""
    assert by_release_file({"error_margin_percent": 95}) is None
    assert by_release_file({"error_margin_percent": 90}) is not None


def test_a_wrong_policy_names_its_keys_what_is_allowed_and_what_was_found() -> None:
    """A policy that is built of a mapping is refused with an error that a person can act upon."""
    with pytest.raises(SpecError) as refused:
        AnalysisPolicy.from_mapping({"windows_to_fail": 0})
    told = str(refused.value)
    assert "the analysis policy" in told
    assert "`windows_to_fail`" in told
    assert "greater than or equal to 1" in told
    assert "`0`" in told


def test_a_policy_is_written_out_whole() -> None:
    """All keys are in `to_dict`, which makes the same policy again."""
    policy = AnalysisPolicy(alpha=0.05, latency_ceiling_ms=100)
    written = policy.to_dict()
    assert [*written] == [*AnalysisPolicy.model_fields]
    assert AnalysisPolicy.from_mapping(json.loads(json.dumps(written))) == policy


def test_the_release_file_gives_the_plan() -> None:
    """Steps, times, what happens when it cannot be told, and the exposure are one value."""
    text = (
        "model: digits\nsource: {format: onnx}\nrollout:\n"
        "  steps: [{weight: 10, bake_s: 20}, {weight: 50, bake_s: 30}]\n"
        "  window_s: 5\n  max_bake_s: 40\n  on_inconclusive: hold\n  exposure: {max_requests: 7}\n"
    )
    rollout = parse_release_spec(text, "digits.yaml").rollout
    assert rollout.plan == CanaryPlan(
        rollout.steps,
        window_s=5.0,
        max_bake_s=40.0,
        on_inconclusive="hold",
        exposure=rollout.exposure,
    )
    assert [(step.weight, step.bake_s) for step in rollout.plan.steps] == [(10, 20), (50, 30)]
    assert rollout.plan.exposure.max_requests == 7
