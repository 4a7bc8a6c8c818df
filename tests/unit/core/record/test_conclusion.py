"""How a release ends where a person has stopped its run."""

from __future__ import annotations

import pytest

from slipway_core.record.conclusion import CANCELLATION, concluded
from slipway_core.record.state import ReleaseState


@pytest.mark.parametrize(
    ("by", "told", "reason"),
    [
        (CANCELLATION, "wrong data set", "the run was stopped: wrong data set"),
        (CANCELLATION, "", "the run was stopped"),
        ("judge", "wrong data set", "the run was stopped"),
    ],
)
def test_a_rollback_is_told_why_its_run_was_stopped(by: str, told: str, reason: str) -> None:
    """In the person's words, unless the users were taken back for another reason."""
    taken_back = ReleaseState(
        model="digits",
        version=2,
        release_id="digits-2",
        outcome="rolled_back",
        rolled_back_by=by,
        reason="the run was stopped",
    )
    ended = concluded(taken_back, stop_reason=told)
    assert (ended.outcome, ended.reason) == ("rolled_back", reason)
