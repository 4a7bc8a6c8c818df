"""One clump of failures and what followed it; and the time in which a candidate may be cold."""

from __future__ import annotations

import pytest

from slipway_core.canary.judge import CanaryJudge, Window
from tests.support.canary.windows import judge, timed, window, windows_until_fail

CLEAN, OUTAGE = window((200, 0), (50, 0), 5.0), window((200, 0), (50, 8), 5.0)


def statuses(judged: CanaryJudge, windows: list[Window]) -> list[str]:
    return [judged.observe(one).status for one in windows]


# --- a clump ---


@pytest.mark.parametrize(
    "outage", [[OUTAGE], [window((200, 0), (50, 3), 5.0), window((200, 0), (50, 5), 5.0)]]
)
def test_one_short_outage_and_a_thousand_clean_answers_pass(outage: list[Window]) -> None:
    """Eight failures in one clump, also one that lies in two windows, delay the pass and do not prevent it."""
    judged = judge(weight=20, bake_s=60.0)
    seen = statuses(judged, [CLEAN, *outage, *[CLEAN] * 24])
    assert "fail" not in seen
    assert seen[12:15] == ["inconclusive"] * 3
    assert seen[-1] == "pass"
    assert "8 errors in one clump of" in judged.standing().reason


@pytest.mark.parametrize("every", [2, 5, 10, 15])
def test_clumps_that_come_again_never_pass(every: int) -> None:
    """An outage every so many windows is no single clump: the candidate fails or stays suspicious."""
    judged = judge(weight=20, bake_s=60.0)
    seen = statuses(judged, [CLEAN, *([OUTAGE] + [CLEAN] * (every - 1)) * (60 // every)])
    assert "pass" not in seen[12:]


def test_a_second_clump_after_a_pass_is_suspicious() -> None:
    """One clump is read as chance in a canary, not two."""
    judged = judge(weight=20, bake_s=60.0)
    assert statuses(judged, [OUTAGE, *[CLEAN] * 24])[-1] == "pass"
    judged.begin_step(50, 60.0)
    seen = statuses(judged, [OUTAGE, *[CLEAN] * 40])
    assert "pass" not in seen


def test_failures_that_go_on_are_no_clump() -> None:
    """Two percent of failures, spread evenly, stay against the candidate."""
    judged = judge(weight=20, bake_s=60.0)
    seen = statuses(judged, [window((200, 0), (50, 1), 5.0)] * 60)
    assert "pass" not in seen[12:]


def test_the_clump_survives_a_restart() -> None:
    """Saved and read again after every window, a judge says the same."""
    whole, parted = judge(weight=20, bake_s=60.0), judge(weight=20, bake_s=60.0)
    for one in [CLEAN, OUTAGE, *[CLEAN] * 24]:
        parted = CanaryJudge.from_json(parted.to_json())
        assert parted.observe(one).to_dict() == whole.observe(one).to_dict()


# --- cold after a raise ---

STABLE = (0, 500, 400, 50, 0, 0)
WARM = timed(STABLE, (0, 26, 21, 3, 0, 0))
COLD = timed(STABLE, (0, 0, 0, 10, 35, 5))


def test_a_candidate_that_is_cold_after_each_raise_passes() -> None:
    """Two minutes of slow answers after each raise fail nobody, and the step passes when it has caught up."""
    judged = judge(weight=3)
    for weight in (4, 5, 6):
        judged.begin_step(weight, 60.0)
        seen = statuses(judged, [*[COLD] * 12, *[WARM] * 6])
        assert set(seen[:12]) == {"inconclusive"}
        assert seen[-1] == "pass"


def test_a_candidate_that_stays_slow_fails_soon_after_its_grace() -> None:
    """Slow from a raise on it does not pass, and fails within half a minute after the two."""
    judged = judge(weight=5)
    statuses(judged, [WARM] * 20)
    judged.begin_step(25, 60.0)
    seen = statuses(judged, [COLD] * 16)
    assert "pass" not in seen
    assert 12 < seen.index("fail") + 1 <= 15


def test_the_grace_ends_when_the_candidate_has_caught_up() -> None:
    """Warm in its second window, slow again from the fourth on: it is not covered by the rest of the two minutes."""
    judged = judge(weight=5)
    statuses(judged, [WARM] * 20)
    judged.begin_step(25, 600.0)
    found = windows_until_fail(judged, [WARM, WARM, WARM, *[COLD] * 10])
    assert found is not None
    assert found < 12


def test_a_short_step_has_a_short_grace() -> None:
    """A step that bakes for 30 s judges latency after a minute, not after two."""
    judged = judge(weight=5, bake_s=30.0)
    found = windows_until_fail(judged, [COLD] * 12)
    assert found is not None
    assert found > 6


def test_without_a_raise_there_is_no_grace() -> None:
    """A step at the same weight or a lower one begins with a candidate that is warm."""
    judged = judge(weight=25)
    statuses(judged, [WARM] * 20)
    judged.begin_step(25, 60.0)
    found = windows_until_fail(judged, [COLD] * 10)
    assert found is not None


def test_a_grace_of_no_time_covers_the_first_windows_alone() -> None:
    """With `latency_grace_s` 0 only `latency_grace_windows` after each raise do not count."""
    assert windows_until_fail(judge(latency_grace_s=0), [WARM] * 3 + [COLD] * 9) is not None
    assert windows_until_fail(judge(latency_grace_s=0), [COLD] * 10) is not None
    assert windows_until_fail(judge(), [COLD] * 10) is None


def test_the_grace_survives_a_restart() -> None:
    """Saved and read again after every window, a judge says the same."""
    whole, parted = judge(weight=20, bake_s=60.0), judge(weight=20, bake_s=60.0)
    for one in [*[COLD] * 3, *[WARM] * 3, *[COLD] * 6]:
        parted = CanaryJudge.from_json(parted.to_json())
        assert parted.observe(one).to_dict() == whole.observe(one).to_dict()
