from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from include.model_release.canary.judge import CanaryJudge
from include.model_release.canary.plan import decide, exposure_spent
from include.model_release.canary.verdict import Status, Verdict
from include.model_release.errors import SlipwayError, SpecError
from include.model_release.metrics.samples import Sample, Window
from include.model_release.spec.rollout.analysis import AnalysisPolicy
from include.model_release.spec.rollout.plan import CanaryPlan, Exposure, RolloutStep

BUCKETS = (5.0, 10.0, 20.0, 50.0, 100.0, math.inf)


def window(stable: tuple[int, int], candidate: tuple[int, int], seconds: float = 2.0) -> Window:
    """A window of (requests, errors) without latencies."""
    return Window(seconds, Sample(*stable), Sample(*candidate))


def timed(stable: tuple[int, ...], candidate: tuple[int, ...]) -> Window:
    """A window without errors, from the counts in BUCKETS."""
    return Window(
        10.0,
        Sample(sum(stable), 0, dict(zip(BUCKETS, stable, strict=True))),
        Sample(sum(candidate), 0, dict(zip(BUCKETS, candidate, strict=True))),
    )


def judge(weight: int = 5, bake_s: float = 0.0, **policy: float) -> CanaryJudge:
    made = CanaryJudge(AnalysisPolicy.from_mapping(policy))
    made.begin_step(weight, bake_s)
    return made


def windows_until_fail(judged: CanaryJudge, windows: list[Window]) -> int | None:
    for number, seen in enumerate(windows, start=1):
        if judged.observe(seen).status == "fail":
            return number
    return None


# --- what it must see ---


@pytest.mark.parametrize("requests", [5, 7, 10])
def test_a_quarter_failing_is_found_within_four_small_windows(requests: int) -> None:
    """With 25 % of few candidate requests failing and stable spotless, two to four windows of two seconds are
    enough.
    """
    errors = [round((number + 1) * requests / 4) - round(number * requests / 4) for number in range(8)]
    seen = [window((130, 0), (requests, error)) for error in errors]
    found = windows_until_fail(judge(), seen)
    assert found is not None
    assert 2 <= found <= 4


def test_all_requests_failing_is_found_in_the_second_window_not_the_first() -> None:
    """One window, however dreadful, may be a clump and cannot decide alone; the second decides."""
    assert windows_until_fail(judge(), [window((950, 0), (50, 50))] * 3) == 2
    assert windows_until_fail(judge(windows_to_fail=1), [window((950, 0), (50, 50))] * 3) == 1


def test_a_fault_that_begins_late_is_found() -> None:
    """An hour without errors does not buy the candidate the right to fail afterwards."""
    healthy = [window((950, 4), (50, 0), 10.0)] * 100
    faulty = [window((950, 5), (50, 5), 10.0)] * 20
    found = windows_until_fail(judge(), healthy + faulty)
    assert found is not None
    assert found > 100


def test_a_blip_that_hits_both_is_no_fault() -> None:
    """Errors are compared within the same window, so what hits both versions alike does not count."""
    calm, blip = window((950, 4), (50, 0), 10.0), window((950, 95), (50, 5), 10.0)
    assert windows_until_fail(judge(), [calm] * 20 + [blip] * 20 + [calm] * 20) is None


def test_a_difference_within_the_margin_passes() -> None:
    """0.8 % of errors against 0.5 % is within a margin of half a percent."""
    seen = [window((500, 2 + number % 2), (500, 4), 10.0) for number in range(100)]
    judged = judge(error_margin_percent=0.5)
    assert windows_until_fail(judged, seen) is None
    assert judged.observe(seen[0]).status == "pass"


def test_a_slower_candidate_fails() -> None:
    """Answers that take twice as long are found by their histogram."""
    seen = [timed((0, 500, 400, 50, 0, 0), (0, 0, 25, 20, 5, 0))] * 40
    assert windows_until_fail(judge(), seen) is not None


def test_a_slow_tail_alone_fails() -> None:
    """A median like stable's does not hide one slow answer in ten."""
    seen = [timed((0, 500, 400, 50, 0, 0), (0, 220, 190, 40, 0, 50))] * 40
    assert windows_until_fail(judge(), seen) is not None


def last_reason(judged: CanaryJudge, windows: list[Window]) -> str:
    """The judge's reason after all windows."""
    return [judged.observe(seen).reason for seen in windows][-1]


def test_who_fails_by_latency_is_told_latencies() -> None:
    """The sentence has the quantile that decided, of both, and from how many requests; no counts of errors."""
    # All of stable's answers within 50 ms; of the candidate's one in ten takes up to 100.
    seen = [timed((0, 500, 450, 50, 0, 0), (0, 250, 200, 0, 50, 0))] * 30
    reason = last_reason(judge(), seen)
    assert reason.startswith(
        "The candidate fails: it is slower than stable in the same windows (p99 93.3 ms against 41.6 ms of stable "
        # It fails at the fourth window; the first one is a cold model's, and was not asked.
        "(quantile 0.99 from 1,500 and 3,000 requests; 10 % of its answers took longer than 50 ms, 0 % of stable's); "
    )
    assert "errors" not in reason


def test_a_slowness_that_began_late_is_told_by_the_share_of_slow_answers() -> None:
    """Where the quantile over the whole canary hardly shows it yet, how many answers were too slow does."""
    stable = (0, 900, 100, 0, 0, 0)
    calm, late = timed(stable, (0, 45, 5, 0, 0, 0)), timed(stable, (0, 0, 50, 0, 0, 0))
    reason = last_reason(judge(), [calm] * 60 + [late] * 8)
    found = re.search(
        r"([\d.]+) % of its answers took longer than ([\d.]+) ms, ([\d.]+) % of stable's", reason
    )
    assert found is not None
    assert float(found[1]) > float(found[3])


def test_who_is_above_the_latency_ceiling_is_told_it() -> None:
    """The sentence has the candidate's quantile, the ceiling, and how many answers were above it."""
    both_slow = [timed((0, 0, 0, 0, 450, 50), (0, 0, 0, 0, 45, 5))] * 20
    reason = last_reason(judge(latency_ceiling_ms=40.0, latency_quantile=0.95), both_slow)
    told = "its latency is above the ceiling (p95 more than 100 ms, the ceiling is 40 ms (quantile 0.95 from "
    assert told in reason
    assert "100 % of its answers took longer than 50 ms" in reason


def test_the_words_about_latency_survive_a_restart() -> None:
    """A judge that was saved and read again says the same numbers."""
    seen = [timed((0, 500, 450, 50, 0, 0), (0, 250, 200, 0, 50, 0))] * 3
    judged, again = judge(), judge()
    for one in seen:
        judged.observe(one)
        again = CanaryJudge.from_json(again.to_json())
        again.observe(one)
    assert "(quantile 0.99 from 1,000 and 2,000 requests" in judged.standing().reason
    assert again.standing().reason == judged.standing().reason
    old = json.loads(judged.to_json())
    del old["questions"]["latencies"]
    assert CanaryJudge.from_json(json.dumps(old)).standing().status == judged.standing().status


def test_a_cold_candidate_is_not_blamed_for_its_first_window() -> None:
    """The first window with traffic shows loading, not the model; alike afterwards, it passes."""
    cold = timed((0, 500, 400, 50, 0, 0), (0, 0, 0, 0, 0, 50))
    warm = timed((0, 500, 400, 50, 0, 0), (0, 26, 21, 3, 0, 0))
    judged = judge()
    assert windows_until_fail(judged, [cold] + [warm] * 30) is None
    assert judged.observe(warm).status == "pass"


def test_ceilings_are_absolute() -> None:
    """With ceilings, a candidate as bad as stable fails where it is worse than the policy allows anybody to
    be.
    """
    both_failing = [window((500, 50), (500, 50), 10.0)] * 20
    assert windows_until_fail(judge(), both_failing) is None
    assert windows_until_fail(judge(error_ceiling_percent=2.0), both_failing) is not None
    both_slow = [timed((0, 0, 0, 0, 450, 50), (0, 0, 0, 0, 45, 5))] * 20
    assert windows_until_fail(judge(), both_slow) is None
    assert windows_until_fail(judge(latency_ceiling_ms=40.0), both_slow) is not None


# --- when it passes ---


def test_no_errors_and_a_bake_that_is_over_pass() -> None:
    """Zero errors on both, the minimum of samples and the whole bake: a pass that says which kind it is."""
    judged = judge(bake_s=10.0)
    verdicts = [judged.observe(window((190, 0), (10, 0))) for _ in range(5)]
    assert [verdict.status for verdict in verdicts] == ["inconclusive"] * 4 + ["pass"]
    assert "bake is over" in verdicts[-1].reason


def test_much_data_show_it_to_be_no_worse() -> None:
    """With enough requests without errors it is shown, not only not refuted; the reason tells the two apart."""
    judged = judge(bake_s=1e6, error_margin_percent=0.5)
    verdicts = [judged.observe(window((500, 0), (500, 0), 10.0)) for _ in range(80)]
    assert verdicts[-1].status == "pass"
    assert "Shown" in verdicts[-1].reason


def test_too_little_data_is_inconclusive_however_long_it_lasts() -> None:
    """Without the minimum of candidate requests time alone passes nobody."""
    judged = judge(bake_s=10.0)
    for _ in range(40):
        verdict = judged.observe(window((200, 0), (1, 0)))
    assert verdict.status == "inconclusive"
    assert "40 candidate requests" in verdict.reason


def test_the_minimum_counts_from_the_beginning_of_the_step() -> None:
    """Each step needs its own requests; evidence is kept, but a pass is not."""
    judged = judge()
    assert judged.observe(window((900, 0), (60, 0))).status == "pass"
    judged.begin_step(25, 0.0)
    assert judged.observe(window((90, 0), (30, 0))).status == "inconclusive"


def test_an_empty_stable_is_inconclusive() -> None:
    """With nothing to compare with, nothing passes and nothing fails."""
    judged = judge()
    for _ in range(20):
        verdict = judged.observe(window((0, 0), (100, 3)))
    assert verdict.status == "inconclusive"


def test_suspicion_delays_a_pass() -> None:
    """A few errors too many are not enough to fail, but enough to look on."""
    judged = judge()
    judged.observe(window((950, 0), (60, 3)))
    verdict = judged.observe(window((950, 0), (60, 2)))
    assert verdict.status == "inconclusive"
    assert "Suspicious" in verdict.reason


def test_the_example_of_the_documentation() -> None:
    """docs/canary.md: after 4 errors in 90 requests the evidence is about 32, after 6 in 150 the candidate fails."""
    judged, with_error = judge(), {2, 4, 7, 9, 12, 15}
    verdicts = [
        judged.observe(window((490, 2 if number % 2 else 3), (10, int(number in with_error)), 10.0))
        for number in range(1, 16)
    ]
    assert verdicts[8].status == "inconclusive"
    assert verdicts[8].statistics.total_evidence == pytest.approx(32, abs=0.5)
    assert [verdict.status for verdict in verdicts[9:]] == ["inconclusive"] * 5 + ["fail"]
    assert verdicts[-1].statistics.total_evidence == pytest.approx(168, abs=0.5)


# --- its promises ---


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


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=50, deadline=None)
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


PLAN = CanaryPlan((RolloutStep(weight=5, bake_s=60), RolloutStep(weight=50, bake_s=60)), max_bake_s=300.0)


def verdict(status: Status, no_data_windows: int = 0) -> Verdict:
    statistics = replace(judge().standing().statistics, no_data_windows=no_data_windows)
    return Verdict(status, "", statistics, no_data=no_data_windows > 0)


@pytest.mark.parametrize(
    ("status", "elapsed_s", "no_data_windows", "move"),
    [
        ("fail", 1.0, 0, "roll_back"),
        ("pass", 59.0, 0, "continue"),
        ("pass", 60.0, 0, "advance"),
        ("inconclusive", 60.0, 0, "continue"),
        ("inconclusive", 299.0, 0, "continue"),
        ("inconclusive", 300.0, 0, "roll_back"),
        ("inconclusive", 10.0, 2, "continue"),
        ("inconclusive", 10.0, 3, "roll_back"),
        ("fail", 10.0, 1, "roll_back"),
    ],
)
def test_a_verdict_decides_the_next_move(
    status: Status, elapsed_s: float, no_data_windows: int, move: str
) -> None:
    """Fail goes back, pass advances after the bake, undecided waits up to the limit, a lack of data does not last."""
    assert decide(verdict(status, no_data_windows), elapsed_s, PLAN.steps[0], PLAN) == move


def test_a_plan_may_hold_for_a_person() -> None:
    """Where the plan says hold, an undecided step waits for a person instead of going back."""
    plan = CanaryPlan(PLAN.steps, max_bake_s=300.0, on_inconclusive="hold")
    assert decide(verdict("inconclusive"), 300.0, plan.steps[0], plan) == "hold"
    assert decide(verdict("inconclusive", 3), 10.0, plan.steps[0], plan) == "hold"
    assert decide(verdict("fail"), 10.0, plan.steps[0], plan) == "roll_back"


@pytest.mark.parametrize("weights", [[], [5, 5], [50, 5], [0, 5], [5, 100]])
def test_a_plan_rises_within_1_to_99(weights: list[int]) -> None:
    """Weights that do not rise within 1 to 99 percent are no plan."""
    with pytest.raises((SpecError, ValidationError)):
        CanaryPlan(tuple(RolloutStep(weight=weight, bake_s=60) for weight in weights))


@pytest.mark.parametrize(
    "values",
    [
        {"alpha": 0.0},
        {"alpha": math.nan},
        {"latency_quantile": 1.0},
        {"burst_correlation": -0.1},
        {"alhpa": 0.01},
    ],
)
def test_a_policy_out_of_range_is_told(values: dict[str, float]) -> None:
    """Wrong or unknown values of the policy are errors that name the key."""
    with pytest.raises(SpecError, match=next(iter(values))):
        AnalysisPolicy.from_mapping(values)


def test_a_bake_as_long_as_the_limit_can_be_passed() -> None:
    """Windows are a little shorter than the clock says; a spotless step is not rolled back for that."""
    plan = replace(PLAN, steps=(RolloutStep(weight=5, bake_s=60),), max_bake_s=60.0)
    judged, clock_s, moves = judge(bake_s=60.0), 0.0, []
    while "advance" not in moves and "roll_back" not in moves:
        clock_s += 10.02
        seen = judged.observe(window((950, 0), (60, 0), 9.99))
        moves.append(decide(seen, clock_s, plan.steps[0], plan))
    assert moves == ["continue"] * 6 + ["advance"]


@pytest.mark.parametrize(
    ("budget", "move"),
    [
        (Exposure(max_errors=2), "roll_back"),
        (Exposure(max_errors=3), "continue"),
        (Exposure(max_requests=119), "roll_back"),
        (Exposure(max_requests=120), "continue"),
    ],
)
def test_a_budget_of_exposure_ends_the_canary(budget: Exposure, move: str) -> None:
    """Users meet no more of the candidate than the plan allows, whatever the judge still hopes to learn."""
    plan, judged = replace(PLAN, exposure=budget), judge(bake_s=60.0)
    judged.observe(window((950, 4), (60, 1)))
    seen = judged.observe(window((950, 4), (60, 2)))
    assert decide(seen, 4.0, plan.steps[0], plan) == move
    assert (exposure_spent(seen, plan) is not None) == (move == "roll_back")
