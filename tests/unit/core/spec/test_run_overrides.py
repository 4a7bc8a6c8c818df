"""What the form of a run may ask for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError
from slipway_core.spec.rollout.plan import RolloutStep
from slipway_core.spec.rollout.rollout import Rollout
from slipway_core.spec.run_overrides import RELEASE_PARAMETERS, looser_than_file, require_known

FILE = [(5, 120), (25, 180), (99, 60)]


def rollout(steps: list[tuple[int, int]], window_s: int = 10) -> Rollout:
    made = tuple(RolloutStep(weight=weight, bake_s=bake_s) for weight, bake_s in steps)
    return Rollout(steps=made, window_s=window_s, max_bake_s=3600)


def test_the_file_itself_is_no_looser() -> None:
    """Steps that are written out again are as strict as they were."""
    assert looser_than_file(rollout(FILE), rollout(FILE)) == []


@pytest.mark.parametrize(
    "steps",
    [
        [(5, 240), (25, 180), (99, 60)],
        [(1, 60), (5, 120), (25, 180), (99, 60)],
        [(5, 120), (25, 180), (50, 60), (99, 60)],
    ],
    ids=["longer", "a step before", "a step between"],
)
def test_more_care_is_taken(steps: list[tuple[int, int]]) -> None:
    """Users later on the candidate, and no less for the judge to see."""
    assert looser_than_file(rollout(FILE), rollout(steps)) == []


LOOSER: dict[str, tuple[list[tuple[int, int]], str]] = {
    "at once": ([(99, 10)], "ahead of the file's 0 s"),
    "more at the start": ([(10, 120), (25, 180), (99, 60)], "ahead of the file's 0 s"),
    "shorter": ([(5, 60), (25, 180), (99, 120)], "ahead of the file's 60 s"),
    "without the last": ([(5, 120), (25, 180)], "ahead of the file's 300 s"),
    "few see it": ([(1, 400), (2, 40)], "percent-seconds"),
    "never many": ([(5, 120), (25, 600)], "the last of `steps` is 25 %, the file's is 99 %"),
}


@pytest.mark.parametrize(("steps", "reason"), LOOSER.values(), ids=LOOSER)
def test_less_care_is_named(steps: list[tuple[int, int]], reason: str) -> None:
    """The reason says where the run would be ahead of the file, or show the judge less."""
    assert any(reason in found for found in looser_than_file(rollout(FILE), rollout(steps)))


@pytest.mark.parametrize("window_s", [1, 20])
def test_the_window_stays(window_s: int) -> None:
    """A longer one finds a bad version later, a shorter one takes a clump of failures for many."""
    assert "`window_s`" in looser_than_file(rollout(FILE), rollout(FILE, window_s))[0]


STEPS = st.lists(st.tuples(st.integers(1, 99), st.integers(10, 300)), min_size=1, max_size=4).map(
    lambda steps: sorted({weight: (weight, bake_s) for weight, bake_s in steps}.values())
)


@given(STEPS, STEPS)
def test_users_never_meet_the_candidate_sooner(
    file: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    """Second by second: what is allowed leads no larger share there than the file would."""
    if looser_than_file(rollout(file), rollout(asked)):
        return

    def weights(steps: list[tuple[int, int]]) -> list[int]:
        return [weight for weight, bake_s in steps for _ in range(bake_s)] + [100] * 1300

    pairs = list(zip(weights(file)[:1300], weights(asked)[:1300], strict=True))
    assert all(wanted <= known for known, wanted in pairs)
    assert sum(weight * bake_s for weight, bake_s in asked) >= sum(w * bake_s for w, bake_s in file)


@pytest.mark.parametrize(
    ("params", "hint"), [({"stepz": 3}, "did you mean `steps`"), ({"🙂" * 500: 1}, "leave it out")]
)
def test_an_unknown_parameter_is_refused(params: dict[str, Any], hint: str) -> None:
    """A typo does not pass for the default of what was meant."""
    with pytest.raises(UserError, match=hint):
        require_known({"model": "digits", **params}, RELEASE_PARAMETERS)
    require_known(RELEASE_PARAMETERS, RELEASE_PARAMETERS)
