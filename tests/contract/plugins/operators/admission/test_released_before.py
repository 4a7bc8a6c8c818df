"""A version that was released before, and how a release ends."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import AlreadyReleasedError, UserError
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    StageFinished,
    StageStarted,
)
from tests.support.release.admission import Admit, cause, conclude, holder, kinds, record

# --- released before ---


def finish(store: ModelStoreHook, outcome: str, run_id: str = "earlier") -> None:
    """Let an earlier run have released version 2 with this outcome."""
    earlier = record(store, run_id)
    earlier.append(ReleaseStarted())
    earlier.append(ReleaseFinished(outcome=outcome, refused_by=None, reason="so it went"))


@pytest.mark.parametrize("outcome", ["promoted", "rolled_back"])
def test_version_that_met_users_is_not_released_again(
    landed: ModelStoreHook, admit: Admit, outcome: str
) -> None:
    """What was promoted or rolled back before is refused, unless it is asked for by name."""
    finish(landed, outcome)
    with pytest.raises(AirflowFailException, match=f"found {outcome}; its newest run is earlier") as caught:
        admit()
    assert cause(caught) is AlreadyReleasedError
    assert holder(landed) is None, "a refused request keeps no lock"
    assert admit(force=True).force is True
    assert record(landed).state().attempts == 2


def test_a_rollback_that_was_refused_does_not_make_its_version_new(
    landed: ModelStoreHook, admit: Admit
) -> None:
    """A later run about a promoted version, as a rollback by hand is one, may end as refused; promoted it stays."""
    record(landed, "earlier").append(ReleaseStarted())
    record(landed, "earlier").append(Promoted(storage_uri="s3://b/models/digits/2/repository"))
    finish(landed, "refused", "rollback-1")
    with pytest.raises(AirflowFailException, match="found promoted; its newest run is rollback-1"):
        admit()


@pytest.mark.parametrize("outcome", ["refused", "failed", "cancelled"])
def test_version_that_met_no_user_may_be_tried_again(
    landed: ModelStoreHook, admit: Admit, outcome: str
) -> None:
    """A release that ended before any user saw the version does not stand in the way of another."""
    finish(landed, outcome)
    admit()
    assert record(landed).state().attempts == 2


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_cleared_run_is_a_new_attempt(landed: ModelStoreHook, admit: Admit, outcome: str) -> None:
    """A run that has ended and is cleared in Airflow begins anew: its old end is not the new one's."""
    finish(landed, outcome, run_id="digits-2")
    admit(running=("digits-2",))
    state = record(landed).state()
    assert (state.attempts, state.outcome, state.reason) == (2, "open", None)


@pytest.mark.parametrize("outcome", ["promoted", "rolled_back"])
def test_cleared_run_that_met_users_is_refused(landed: ModelStoreHook, admit: Admit, outcome: str) -> None:
    """Clearing a run whose version was promoted or rolled back does not release it again by accident."""
    finish(landed, outcome, run_id="digits-2")
    with pytest.raises(AirflowFailException) as caught:
        admit(running=("digits-2",))
    assert cause(caught) is AlreadyReleasedError


def test_a_run_id_is_used_once(landed: ModelStoreHook) -> None:
    """Airflow forgets its runs, the record does not: a new run under an old id would write over its evidence."""
    finish(landed, "refused", run_id="digits-2")
    earlier = record(landed, "digits-2").events()[0].at
    with pytest.raises(UserError, match="was used before"):
        record(landed, "digits-2").require_own(earlier + timedelta(days=90))


def test_a_cleared_run_keeps_its_id(landed: ModelStoreHook) -> None:
    """Airflow made it before it wrote anything, whatever the clocks of two machines say."""
    finish(landed, "refused", run_id="digits-2")
    earlier = record(landed, "digits-2").events()[0].at
    record(landed, "digits-2").require_own(earlier + timedelta(minutes=5))
    record(landed, "digits-2").require_own(earlier - timedelta(days=1))
    record(landed, "digits-2").require_own(None)
    record(landed, "digits-2-2").require_own(earlier + timedelta(days=90))


# --- the end ---


@pytest.mark.parametrize(
    ("events", "outcome", "refused_by"),
    [
        ([], "cancelled", None),
        ([StageStarted(stage="convert")], "cancelled", None),
        ([StageFinished(stage="convert", outcome="failed", reason="r")], "failed", None),
        ([StageFinished(stage="stage", outcome="refused", reason="r")], "refused", "stage"),
        ([Promoted(storage_uri="s3://b/m")], "promoted", None),
    ],
    ids=["nothing was done", "stopped in a stage", "a stage failed", "a gate refused", "promoted"],
)
def test_conclusion_follows_from_the_record(
    landed: ModelStoreHook,
    admit: Admit,
    events: list[EventData],
    outcome: str,
    refused_by: str | None,
) -> None:
    """The end is what the events amount to; only a promotion makes the run a success; a second run changes nothing."""
    release_run = admit()
    for data in events:
        record(landed).append(data)
    assert conclude(release_run) is (outcome == "promoted")
    state = record(landed).state()
    assert (state.outcome, state.refused_by) == (outcome, refused_by)
    assert kinds(landed)[-1] == "release_finished"
    assert holder(landed) is None
    assert conclude(release_run) is (outcome == "promoted")
    assert kinds(landed).count("release_finished") == 1
