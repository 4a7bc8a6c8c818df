"""What Airflow is asked for where a person does something."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from slipway_core.acts.requests import (
    ActInput,
    Answer,
    FailRun,
    Question,
    StartRun,
    request_of,
)
from slipway_core.acts.table import ACTS
from slipway_core.errors import SlipwayError, UserError

QUESTION = Question("model_release", "digits-3", "rollout.approve")
FULL = ActInput(
    model="digits",
    version=3,
    reason="answers were wrong",
    until=datetime(2027, 1, 2, 8, tzinfo=UTC),
    finding="3-published",
    question=QUESTION,
    release_id="digits-3",
)


def test_every_act_is_in_the_table() -> None:
    """The table has each name once, with a title and a sentence."""
    for name, act in ACTS.items():
        assert act.name == name
        assert act.title
        assert act.description.endswith(".")


@pytest.mark.parametrize("name", ACTS)
def test_an_act_that_is_filled_in_asks_for_something(name: str) -> None:
    """Every act has a request of the kind that the table names."""
    kinds = {"start_run": StartRun, "fail_run": FailRun, "answer": Answer}
    assert isinstance(request_of(name, FULL), kinds[ACTS[name].means])


@pytest.mark.parametrize(
    ("name", "field"), [(act.name, field) for act in ACTS.values() for field in act.required]
)
def test_what_an_act_needs_is_asked_for(name: str, field: str) -> None:
    """Without a field that the act needs there is no request, and the error says what is missing."""
    empty = getattr(ActInput(), field)
    with pytest.raises(SlipwayError) as caught:
        request_of(name, replace(FULL, **{field: empty}))
    assert caught.value.expected


def test_a_run_is_given_what_was_filled_in_and_nothing_else() -> None:
    """What the act does not take, and what was left empty, is not in the run's parameters."""
    asked = replace(FULL, force=True, emergency=True)
    assert request_of("release", asked) == StartRun(
        "release",
        {"model": "digits", "version": 3, "reason": "answers were wrong", "force": True},
        "answers were wrong",
    )
    assert request_of("pause", ActInput(model="digits")) == StartRun(
        "pause", {"model": "digits", "action": "pause"}
    )


def test_a_roll_back_of_a_canary_names_no_version() -> None:
    """Without a version the roll back takes users off the canary, or to the version before."""
    request = request_of("rollback", ActInput(model="digits", reason="answers were wrong"))
    assert request == StartRun(
        "rollback",
        {"model": "digits", "reason": "answers were wrong"},
        note="answers were wrong",
    )


def test_an_abort_marks_the_release_run_as_failed() -> None:
    """A release ends by its own teardowns: the run is marked as failed, and never deleted."""
    assert request_of("abort", FULL) == FailRun("release", "digits-3", "answers were wrong")


def test_an_answer_carries_the_comment() -> None:
    """Who declines says why; who approves may."""
    assert request_of("decline", FULL) == Answer(QUESTION, "Reject", "answers were wrong")
    assert request_of("approve", replace(FULL, reason="")) == Answer(QUESTION, "Approve", "")


@pytest.mark.parametrize("reason", ["no", "  no  ", "x" * 501])
def test_a_reason_has_a_size(reason: str) -> None:
    """A reason that is too short or too long is refused before a run exists, also where none is needed."""
    for name in ("rollback", "pause"):
        with pytest.raises(UserError, match="reason"):
            request_of(name, replace(FULL, reason=reason))


def test_an_end_without_a_time_zone_is_none() -> None:
    """A freeze ends at a moment that everybody reads alike."""
    with pytest.raises(UserError, match="end"):
        request_of("freeze", replace(FULL, until=datetime(2027, 1, 2, 8)))  # noqa: DTZ001


@pytest.mark.parametrize("model", ["../digits", "Digits", "", "a b"])
def test_a_name_that_cannot_be_a_models_is_refused(model: str) -> None:
    """No act is asked for with a name that no model can have, also where the model may be left out."""
    for name in ("pause", "freeze"):
        with pytest.raises(SlipwayError):
            request_of(name, replace(FULL, model=model))
