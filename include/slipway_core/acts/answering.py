"""Acts that answer what a run waits for."""

from __future__ import annotations

from slipway_core.acts.act import APPROVE as YES
from slipway_core.acts.act import REJECT as NO
from slipway_core.acts.act import Act, Command
from slipway_core.acts.situation import Availability, Available, Refused, Situation
from slipway_core.four_eyes import is_same_person


def _answer(now: Situation) -> Availability:
    if now.open is None or not now.open.waits_for_approval:
        return Refused(f"{now.model} has no open approval.", now.look)
    return Available()


def _approve(now: Situation) -> Availability:
    answer = _answer(now)
    if isinstance(answer, Refused) or now.open is None:
        return answer
    if now.by_other and is_same_person(now.person, now.open.triggered_by):
        return Refused(
            "You started this release, so another person must approve it.", f"slipway approve {now.model}"
        )
    return answer


APPROVE = Act(
    name="approve",
    title="Approve",
    description="Approves the next step under your name. The release continues.",
    means="answer",
    answer=YES,
    required=("question",),
    optional=("reason",),
    any_reason=True,
    possible=_approve,
    alarming=True,
    places=frozenset({"open_release"}),
    emphasis="primary",
    command=Command(
        "Approve, under your name, what the model's release waits for.",
        ('slipway approve digits --reason "seen the report"',),
        group="Act",
        next_command="slipway get {model} -w",
        ending="",
    ),
)
DECLINE = Act(
    name="decline",
    title="Decline",
    description="Declines the release under your name. Slipway rejects the version, and rolls it back if it has users.",
    means="answer",
    answer=NO,
    required=("question", "reason"),
    possible=_answer,
    alarming=True,
    on_old_data=True,
    places=frozenset({"open_release"}),
    emphasis="danger",
    command=Command(
        "Decline what the model's release waits for. Slipway rejects the version, and rolls it back if it has users.",
        ('slipway decline digits --reason "accuracy of class 7"',),
        group="Act",
        ending="",
    ),
)
