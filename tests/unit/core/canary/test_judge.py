from __future__ import annotations

import json
import re

import pytest

from slipway_core.canary.judge import (
    CanaryJudge,
    Window,
)
from slipway_core.errors import SlipwayError
from tests.support.canary.windows import judge, timed, window, windows_until_fail

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
    judged = judge(weight=50, error_margin_percent=0.5)
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
        # It fails at the fifth window; the first one is a cold model's, and was not asked.
        "(quantile 0.99 from 2,000 and 4,000 requests; 10 % of its answers took longer than 50 ms, 0 % of stable's); "
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
    judged, again = judge(weight=33, latency_grace_s=0), judge(weight=33, latency_grace_s=0)
    for one in seen:
        judged.observe(one)
        again = CanaryJudge.from_json(again.to_json())
        again.observe(one)
    assert "(quantile 0.99 from 1,000 and 2,000 requests" in judged.standing().reason
    assert again.standing().reason == judged.standing().reason


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
    judged = judge(weight=50, bake_s=800.0, error_margin_percent=0.5)
    verdicts = [judged.observe(window((500, 0), (500, 0), 10.0)) for _ in range(80)]
    assert verdicts[-1].status == "pass"
    assert "Shown" in verdicts[-1].reason
    assert [verdict.status for verdict in verdicts[:-1]] == ["inconclusive"] * 79


def test_too_little_data_is_inconclusive_however_long_it_lasts() -> None:
    """Without the minimum of candidate requests time alone passes nobody."""
    judged = judge(weight=1, bake_s=10.0)
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


@pytest.mark.parametrize(
    "part", ["replayed", "streamed", "earlier", "clump", "unjudged", "disrupted_windows", "answers"]
)
def test_a_saved_judge_without_a_part_is_refused(part: str) -> None:
    """What was cut from a saved state has not been seen to be healthy: the canary cannot go on from it."""
    state = json.loads(judge().to_json())
    del state[part]
    with pytest.raises(SlipwayError, match=part):
        CanaryJudge.from_json(json.dumps(state))


@pytest.mark.parametrize(("part", "count"), [("answers", "given_up"), ("latency_seen", "not_compared")])
def test_a_saved_part_without_a_count_is_refused(part: str, count: str) -> None:
    """A count that is missing is no zero."""
    state = json.loads(judge().to_json())
    del state[part][count]
    with pytest.raises(SlipwayError, match=count):
        CanaryJudge.from_json(json.dumps(state))
