"""At 99 % stable is thin: what the judge asks of earlier windows then, and what it says that it compared with."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from slipway_core.canary.judge import CanaryJudge, Window
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample
from tests.support.canary.windows import judge, timed, window, windows_until_fail

QUICK = (0, 500, 400, 50, 0, 0)


def at_99(rps: float = 5.0, *, bake_s: float = 60.0, stable_errors: int = 0, **policy: float) -> CanaryJudge:
    """A judge that has seen a good candidate at 5 and 25 %, and begins the step at 99 %."""
    judged = judge(weight=5, **policy)
    requests = round(10 * rps)
    for weight, windows in ((5, 12), (25, 18)):
        judged.begin_step(weight, 10.0 * windows)
        mine = max(1, requests * weight // 100)
        for _ in range(windows):
            judged.observe(window((requests - mine, stable_errors), (mine, 0), 10.0))
    judged.begin_step(99, bake_s)
    return judged


def seen_by(judged: CanaryJudge, *windows: Window) -> Verdict:
    return [judged.observe(one) for one in windows][-1]


@pytest.mark.parametrize("stable", [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("rps", [2, 5, 10, 20, 50])
def test_a_window_of_failures_at_99_fails_at_once(rps: int, stable: tuple[int, int]) -> None:
    """Good until 99 %, then every answer an error: the first window decides, even where stable's one request fails."""
    verdict = at_99(rps).observe(window(stable, (rps * 10, rps * 10), 10.0))
    assert verdict.status == "fail"
    assert "than stable did in earlier windows" in verdict.reason


@pytest.mark.parametrize("weight", [90, 95, 98])
def test_it_is_the_requests_that_are_thin_and_not_the_weight(weight: int) -> None:
    """Also at 90, 95 or 98 % a window of failures with a handful of stable's requests is found at once."""
    judged = at_99()
    judged.begin_step(weight, 60.0)
    stable = (100 - weight) * 50 // 100
    assert judged.observe(window((stable, 0), (50, 50), 10.0)).status == "fail"


def test_what_lies_between_a_third_and_all_takes_two_windows() -> None:
    """A single window with some failures does not decide alone; with the next ones it is found."""
    found = windows_until_fail(at_99(), [window((0, 0), (50, 15), 10.0)] * 10)
    assert found is not None
    assert 2 <= found <= 3


def test_what_the_canary_saw_before_survives_a_restart() -> None:
    """A judge saved in the step at 99 % goes on with the very same verdicts."""
    seen = [window((0, 0), (20, errors), 10.0) for errors in (1, 4, 0, 6, 2)]
    whole, parted = at_99(), at_99()
    for one in seen:
        parted = CanaryJudge.from_json(parted.to_json())
        assert parted.observe(one).to_dict() == whole.observe(one).to_dict()


def test_a_step_with_nothing_to_compare_with_does_not_pass() -> None:
    """A single step of 99 % whose stable is asked next to nothing is inconclusive, however well it does."""
    judged = judge(weight=99, bake_s=60.0)
    verdicts = [judged.observe(window((int(number == 5), 0), (50, 0), 10.0)) for number in range(15)]
    assert {verdict.status for verdict in verdicts} == {"inconclusive"}
    assert "Too little to compare with: 1 stable requests" in verdicts[-1].reason


def test_a_single_step_of_99_that_fails_everything_fails() -> None:
    """Without anything known of stable, more than half of the requests failing is too much."""
    assert windows_until_fail(judge(weight=99), [window((0, 0), (50, 50), 10.0)] * 5) is not None


def test_fifty_stable_requests_of_an_earlier_step_do_not_pass_for_this_one_untold() -> None:
    """A pass at 99 % names stable's earlier windows, and how many requests they had."""
    verdict = seen_by(at_99(), *[window((0, 0), (50, 0), 10.0)] * 6)
    assert verdict.status == "pass"
    assert (
        "compared with 0 stable requests of the same windows and 1,260 of earlier windows" in verdict.reason
    )


def test_a_pass_at_a_small_weight_names_the_same_windows() -> None:
    """Where stable is asked enough it is stable's requests of the step that are named."""
    verdict = judge().observe(window((950, 0), (60, 0)))
    assert "compared with 950 stable requests of the same windows" in verdict.reason
    assert "earlier" not in verdict.reason


def test_what_was_shown_at_small_weights_is_not_shown_at_99() -> None:
    """A candidate shown to be no worse at half the traffic does not pass at 99 % while a fifth of its answers fails."""
    judged = judge(weight=50, error_margin_percent=0.5)
    assert "Shown" in seen_by(judged, *[window((500, 0), (500, 0), 10.0)] * 80).reason
    judged.begin_step(99, 0.0)
    verdicts = [judged.observe(window((0, 0), (60, 12), 10.0)) for _ in range(6)]
    assert "pass" not in {verdict.status for verdict in verdicts}
    assert verdicts[-1].status == "fail"


def test_a_slow_candidate_at_99_is_found_after_its_grace() -> None:
    """Ten times as slow with the step at 99 %, stable asked nothing: no pass during the grace, a fail soon after it."""
    judged = judge()
    warm = timed(QUICK, (0, 26, 21, 3, 0, 0))
    assert seen_by(judged, *[warm] * 20).status == "pass"
    judged.begin_step(99, 60.0)
    verdicts = [judged.observe(timed((0,) * 6, (0, 0, 0, 0, 40, 10))) for _ in range(20)]
    statuses = [verdict.status for verdict in verdicts]
    assert "pass" not in statuses
    assert 12 < statuses.index("fail") + 1 <= 18
    failed = next(verdict for verdict in verdicts if verdict.status == "fail")
    assert "than stable was in earlier windows" in failed.reason


def test_more_load_and_more_errors_with_it_fail_nobody() -> None:
    """Errors that double with the weight, for both, stay below the ceiling of earlier windows: at most alpha fail."""
    rng = random.Random(30)
    failed = 0
    for _ in range(60):
        judged = judge()
        for weight, windows, rate in ((5, 12, 0.01), (25, 18, 0.0125), (99, 60, 0.02)):
            judged.begin_step(weight, 60.0)
            mine = max(1, weight // 2)
            seen = [_drawn(rng, 50 - mine, mine, rate) for _ in range(windows)]
            failed += windows_until_fail(judged, seen) is not None
    assert failed <= 1


def _drawn(rng: random.Random, stable: int, candidate: int, rate: float) -> Window:
    def sample(count: int) -> Sample:
        return Sample(count, sum(rng.random() < rate for _ in range(count)))

    return Window(10.0, sample(stable), sample(candidate))


def test_what_hits_stables_few_requests_as_well_is_not_blamed() -> None:
    """A third of the answers failing in both, of which stable's few requests show some, condemns nobody."""
    seen = [window((5, 2 if number % 2 else 1), (495, 165), 10.0) for number in range(6)]
    healthy = at_99(50.0)
    healthy.observe(window((5, 2), (495, 5), 10.0))
    assert windows_until_fail(healthy, seen) is None


def test_more_failures_at_99_are_never_less_evidence() -> None:
    """Window for window, the evidence grows with the candidate's failures."""
    found = [
        at_99().observe(window((0, 0), (50, errors), 10.0)).statistics.total_evidence for errors in range(51)
    ]
    assert all(later >= before * (1 - 1e-9) for before, later in pairwise(found))
