from __future__ import annotations

from slipway_core.canary.pace import LONGEST_S, UNDER_WAY_MOST, Pace


def test_a_fast_model_is_given_the_release_files_limit() -> None:
    """Five times of next to nothing is next to nothing: the file's own limit is longer."""
    pace = Pace(5.0)
    pace.saw(0.002)
    assert pace.limit_s(20) == 5.0
    assert pace.under_way_most == UNDER_WAY_MOST


def test_a_slow_model_is_asked_so_many_at_once_as_it_answers_in_time() -> None:
    """Of 1.5 s an answer, three fit into 5 s; the last of them is waited for five times what the three take."""
    pace = Pace(5.0)
    pace.saw(1.5)
    assert pace.under_way_most == 3
    assert pace.limit_s(3) == 22.5


def test_a_model_slower_than_the_limit_is_asked_one_by_one() -> None:
    """One request is always under way, and none is waited for without end."""
    pace = Pace(5.0)
    pace.saw(30.0)
    assert pace.under_way_most == 1
    assert pace.limit_s(1) == LONGEST_S


def test_waiting_behind_others_does_not_make_a_model_slow() -> None:
    """The shortest answer is the model's own time; longer ones have waited for something else."""
    pace = Pace(5.0)
    for seconds in (3.0, 1.0, 9.0):
        pace.saw(seconds)
    assert pace.single_s == 1.0


def test_nothing_measured_leaves_the_release_files_limit() -> None:
    """An error that comes at once says nothing about the pace."""
    assert Pace(2.0).limit_s(8) == 2.0
