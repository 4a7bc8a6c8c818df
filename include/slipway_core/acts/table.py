"""The one table of what a person may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

ActName = Literal[
    "release",
    "rollback",
    "pause",
    "resume",
    "approve",
    "decline",
    "abort",
    "reject",
    "unreject",
    "freeze",
    "thaw",
    "override",
    "pin",
    "unpin",
    "close_finding",
    "tune",
]
Field = Literal[
    "model",
    "version",
    "reason",
    "until",
    "finding",
    "evidence",
    "force",
    "wait_for_approval",
    "newer",
    "emergency",
    "question",
    "release_id",
]
Means = Literal["start_run", "fail_run", "answer"]
"""How Airflow is asked: start a run, mark a run as failed, or answer a question that a run waits for."""

REASON_SHORTEST, REASON_LONGEST = 3, 500
EVIDENCE_LONGEST = 1000


@dataclass(frozen=True)
class Act:
    """One thing that a person may do.

    :param title: what a button says.
    :param told: what happens then, in a sentence.
    :param dag_id: the workflow that carries it out; "" for an answer, which goes to the run that asks.
    :param means: how Airflow is asked.
    :param required: what must be given. A required reason has at least `REASON_SHORTEST` characters.
    :param optional: what may be given.
    :param action: the value of the workflow's parameter `action`; "" where it has none.
    :param alarming: users may meet another version by it: ask once more.
    :param on_old_data: it gives no users a version and deletes nothing, so it is offered whatever the age of what is
        known. Any other act waits until it is known how things stand.
    """

    name: ActName
    title: str
    told: str
    dag_id: str
    means: Means
    required: tuple[Field, ...]
    optional: tuple[Field, ...] = ()
    action: str = ""
    alarming: bool = False
    on_old_data: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        """What the act takes."""
        return self.required + self.optional


_ACTS = (
    Act(
        "release",
        "Release",
        "Starts a release: every gate on staging, then the canary on live traffic.",
        "model_release",
        "start_run",
        ("model", "version"),
        ("reason", "force", "wait_for_approval"),
        alarming=True,
    ),
    Act(
        "rollback",
        "Roll back",
        "Takes all users back: off the canary where one is under way, else to the version that was live before.",
        "model_rollback",
        "start_run",
        ("model", "reason"),
        ("version", "newer", "emergency"),
        alarming=True,
        on_old_data=True,
    ),
    Act(
        "pause",
        "Pause",
        "Keeps the candidate at its weight. The judge goes on watching and may still take it back.",
        "canary_pause",
        "start_run",
        ("model",),
        ("reason",),
        action="pause",
        on_old_data=True,
    ),
    Act(
        "resume",
        "Resume",
        "Ends the pause. The release raises its next weight as soon as nothing else holds it.",
        "canary_pause",
        "start_run",
        ("model",),
        ("reason",),
        action="resume",
    ),
    Act(
        "approve",
        "Approve",
        "Agrees, under your name: the release goes on.",
        "",
        "answer",
        ("question",),
        ("reason",),
        alarming=True,
    ),
    Act(
        "decline",
        "Decline",
        "Refuses the version, under your name: it is taken back where users met it, and rejected.",
        "",
        "answer",
        ("question", "reason"),
        alarming=True,
        on_old_data=True,
    ),
    Act(
        "abort",
        "Abort",
        "Stops the release. Users go back to the stable version; the version is not rejected.",
        "model_release",
        "fail_run",
        ("model", "release_id", "reason"),
        alarming=True,
        on_old_data=True,
    ),
    Act(
        "reject",
        "Reject",
        "Keeps the version from being released. What is live stays live.",
        "version_rejection",
        "start_run",
        ("model", "version", "reason"),
        ("evidence",),
        action="reject",
        on_old_data=True,
    ),
    Act(
        "unreject",
        "Lift the rejection",
        "Lets the version be released again.",
        "version_rejection",
        "start_run",
        ("model", "version", "reason"),
        ("evidence",),
        action="unreject",
    ),
    Act(
        "freeze",
        "Freeze",
        "Holds back every start and every raise until a moment. No rollback is held back.",
        "release_freeze",
        "start_run",
        ("until", "reason"),
        ("model", "evidence"),
        action="freeze",
        on_old_data=True,
    ),
    Act(
        "thaw",
        "Thaw",
        "Lifts the freezes of the model; without a model, those of every model.",
        "release_freeze",
        "start_run",
        ("reason",),
        ("model", "evidence"),
        action="thaw",
    ),
    Act(
        "override",
        "Override",
        "Lets one version go on past the freezes and the closed window of this moment.",
        "release_freeze",
        "start_run",
        ("model", "version", "reason"),
        ("evidence",),
        action="override",
        alarming=True,
    ),
    Act(
        "pin",
        "Pin",
        "Keeps the version's files, whatever the retention says.",
        "version_pin",
        "start_run",
        ("model", "version", "reason"),
        action="pin",
        on_old_data=True,
    ),
    Act(
        "unpin",
        "Unpin",
        "Lets the retention delete the version's files again.",
        "version_pin",
        "start_run",
        ("model", "version", "reason"),
        action="unpin",
    ),
    Act(
        "close_finding",
        "Close the finding",
        "Closes a finding about what is live, under your name, until something else is seen.",
        "finding_close",
        "start_run",
        ("model", "finding", "reason"),
    ),
    Act(
        "tune",
        "Tune",
        "Looks for a faster setting of a published version on staging, and proposes a change of its release file.",
        "model_tuning",
        "start_run",
        ("model", "version"),
    ),
)
ACTS: dict[ActName, Act] = {act.name: act for act in _ACTS}
ACT_NAMES: tuple[ActName, ...] = get_args(ActName)
