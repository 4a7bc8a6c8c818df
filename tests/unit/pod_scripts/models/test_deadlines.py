"""How long an answer is waited for, by what the model's own single answers take."""

from __future__ import annotations

import pytest

from slipway_pod.models.deadlines import LONGEST_S, Deadlines


@pytest.mark.parametrize(
    ("least_s", "single_s", "waiting", "limit_s"),
    [
        (10, 0.001, 16, 10),
        (10, 0.63, 1, 10),
        (10, 0.63, 16, 100.8),
        (10, 4.0, 16, LONGEST_S),
        (300, 4.0, 16, 300),
        (10, 0.0, 16, 10),
    ],
)
def test_a_limit_grows_with_the_model(least_s: float, single_s: float, waiting: int, limit_s: float) -> None:
    """It is never below the release file's, and above 120 s only where that says so."""
    assert Deadlines(least_s, single_s).limit_s(waiting) == pytest.approx(limit_s)


@pytest.mark.parametrize(
    ("single_s", "instances", "number"),
    [(0.001, 2, 16), (0.63, 2, 16), (4.0, 2, 5), (60.0, 3, 6), (0.0, 12, 24)],
)
def test_fewer_requests_are_sent_at_once_to_a_slow_model(
    single_s: float, instances: int, number: int
) -> None:
    """As many as are answered in ten seconds, sixteen at most, and two for each instance at least."""
    assert Deadlines(10, single_s).at_once(instances, 16, 10.0) == number


def test_the_first_answer_may_take_longer() -> None:
    """Nothing was measured yet, so a slow model is not taken for a silent one."""
    assert Deadlines(10).first_s() > Deadlines(10).limit_s()
    assert Deadlines(500).first_s() == 500
