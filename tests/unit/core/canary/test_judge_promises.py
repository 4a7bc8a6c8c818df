"""What the judge promises: few false alarms, restarts that change nothing, verdicts that can be computed again."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge, Window
from slipway_core.errors import SlipwayError
from slipway_core.metrics.samples import Sample
from tests.support.canary.windows import judge, window, windows_until_fail
from tests.support.examples import examples


def test_no_difference_is_rarely_failed() -> None:
    """Of 100 canaries of a candidate that is as stable is, with failures in clumps, at most alpha (1 %) fail."""
    rng = random.Random(20261120)
    failed = sum(
        windows_until_fail(judge(), _clumped_canary(rng, rate=0.01, correlation=0.02)) is not None
        for _ in range(100)
    )
    assert failed <= 1


def _clumped_canary(rng: random.Random, rate: float, correlation: float) -> list[Window]:
    """Thirty windows whose error rates vary from window to window (beta) as clumped failures do."""
    spread = 1 / correlation - 1

    def errors(count: int) -> int:
        share = rng.betavariate(rate * spread, (1 - rate) * spread)
        return sum(rng.random() < share for _ in range(count))

    return [window((90, errors(90)), (10, errors(10)), 10.0) for _ in range(30)]


def test_the_order_of_windows_turns_no_pass_into_a_fail() -> None:
    """The same windows in another order: of 120 good canaries that passed, at most alpha (1 %) fail then."""
    rng = random.Random(7)
    turned = 0
    for _ in range(120):
        seen = _clumped_canary(rng, rate=0.01, correlation=0.005)
        shuffled = rng.sample(seen, len(seen))
        passed = windows_until_fail(judge(), seen) is None
        turned += passed and windows_until_fail(judge(), shuffled) is not None
    assert turned <= 1


tallies = st.integers(0, 40).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count)))
histories = st.lists(st.tuples(tallies, tallies), min_size=1, max_size=12)


@settings(max_examples=examples(30), deadline=None)
@given(histories, st.integers(0, 12), st.booleans())
def test_a_restart_changes_no_later_verdict(
    history: list[tuple[tuple[int, int], tuple[int, int]]], cut: int, with_ceiling: bool
) -> None:
    """The state written to JSON and read back gives the very same verdicts, numbers included."""
    policy = AnalysisPolicy(
        minimum_candidate_requests=20, error_ceiling_percent=5.0 if with_ceiling else None
    )
    whole, parted = CanaryJudge(policy), CanaryJudge(policy)
    whole.begin_step(5, 6.0)
    parted.begin_step(5, 6.0)
    for number, (stable, candidate) in enumerate(history):
        if number == cut:
            parted = CanaryJudge.from_json(parted.to_json())
        seen = Window(2.0, _sample(stable), _sample(candidate))
        assert parted.observe(seen).to_dict() == whole.observe(seen).to_dict()


def _sample(tally: tuple[int, int]) -> Sample:
    requests, errors = tally
    return Sample(requests, errors, {10.0: requests // 2, 20.0: 0, math.inf: requests - requests // 2})


@settings(max_examples=examples(50), deadline=None)
@given(histories, st.data())
def test_more_errors_never_help_the_candidate(
    history: list[tuple[tuple[int, int], tuple[int, int]]], data: st.DataObject
) -> None:
    """Turning good answers of the candidate into errors, anywhere, never lowers the evidence against it."""
    more = [(stable, (count, data.draw(st.integers(errors, count)))) for stable, (count, errors) in history]
    mild, harsh = judge(), judge()
    for less_bad, worse in zip(history, more, strict=True):
        seen, harsher = mild.observe(window(*less_bad)), harsh.observe(window(*worse))
        if harsher.status != "fail":
            assert seen.status != "fail"
            mild_evidence, harsh_evidence = (v.statistics.evidence["errors"] for v in (seen, harsher))
            assert harsh_evidence >= mild_evidence * (1 - 1e-9)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 10**15), st.integers(0, 10**15), st.sampled_from([{}, {math.inf: 10**15}, {5.0: 1}]))
def test_huge_and_odd_windows_give_a_defined_answer(
    stable: int, candidate: int, buckets: dict[float, int]
) -> None:
    """Huge counts, no requests, one bucket: always a verdict, and evidence that is a number."""
    judged = judge()
    for errors in (0, 1):
        seen = Window(
            1.0, Sample(stable, stable * errors, buckets), Sample(candidate, candidate * errors, buckets)
        )
        verdict = judged.observe(seen)
        assert verdict.status in ("pass", "fail", "inconclusive")
        assert all(math.isfinite(value) for value in verdict.statistics.evidence.values())


def test_a_verdict_holds_what_it_takes_to_compute_it_again() -> None:
    """Replaying the windows that verdicts kept, through JSON, gives the same verdicts."""
    first = judge(bake_s=6.0)
    told = [first.observe(window((130, 0), (7, errors))).to_dict() for errors in (0, 2, 1, 3, 2)]
    again = judge(bake_s=6.0)
    for verdict in json.loads(json.dumps(told)):
        assert again.observe(Window.from_dict(verdict["window"])).to_dict() == verdict


def test_a_fail_is_final() -> None:
    """After a fail no amount of good windows makes a pass."""
    judged = judge()
    assert windows_until_fail(judged, [window((950, 0), (50, 25))] * 4) is not None
    assert all(judged.observe(window((950, 0), (500, 0))).status == "fail" for _ in range(50))


def test_a_broken_state_is_refused() -> None:
    """A state that cannot be read is an error that says what to do, not a fresh judge."""
    for text in ("", "{}", '{"state_version": 99}', "null"):
        with pytest.raises(SlipwayError, match="state of the canary's judge"):
            CanaryJudge.from_json(text)


# --- windows without data ---


def test_a_window_without_data_is_neither_health_nor_time() -> None:
    """When the metrics source fails the verdict is inconclusive and says so, and the bake does not go on."""
    judged = judge(bake_s=4.0)
    judged.observe(window((950, 0), (60, 0)))
    unseen = judged.observe_failure("connection refused")
    assert (unseen.status, unseen.no_data, unseen.window) == ("inconclusive", True, None)
    assert "connection refused" in unseen.reason
    assert unseen.statistics.step.seconds == 2.0
    assert judged.observe(window((950, 0), (60, 0))).status == "pass"
