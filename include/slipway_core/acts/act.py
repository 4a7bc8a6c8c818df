"""What one act of a person is: everything that the pages, the command and the workflows know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from slipway_core.acts.situation import Availability, Situation

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
"""How Airflow is asked: start a run, mark a run as failed, or answer a question that a run waits for. It also decides
who may: Airflow asks for the right to start a run of the workflow, to change one, or to answer one."""

Place = Literal["model", "open_release", "ended_release"]
"""A page that offers an act: that of a model, that of a release under way, or that of a release that has ended."""

Offered = Literal["fitting", "older", "landed"]
"""Which versions a form offers: those for which the act makes sense, the older among them, or the uploaded ones."""

Emphasis = Literal["", "primary", "danger"]
"""How a button looks."""

Ending = Literal["", "run", "release", "rollback", "abort"]
"""What the command can wait for: nothing, the run, the release that was started, 0 % and the run, or the release that
was stopped."""

REASON_SHORTEST, REASON_LONGEST = 3, 500
EVIDENCE_LONGEST = 1000
APPROVE, REJECT = "Approve", "Reject"
"""The answers of Airflow's approvals."""


@dataclass(frozen=True)
class Command:
    """The act's verb of the command line, which is its name.

    :param help: what it does, in the imperative, as `--help` shows it.
    :param examples: at least one, each a whole line that calls it.
    :param group: the heading under which `slipway --help` lists it.
    :param next_command: what to type afterwards, a template with `{model}` and `{version}`.
    :param ending: what it can wait for.
    :param waits: whether it waits unless it is called with `--no-wait`.
    :param timeout: how long it waits, where nothing else is said.
    """

    help: str
    examples: tuple[str, ...]
    group: Literal["Act", "Hold and keep"] = "Hold and keep"
    next_command: str = "slipway get {model}"
    ending: Ending = "run"
    waits: bool = True
    timeout: str = "5m"


@dataclass(frozen=True)
class Act:
    """One thing that a person may do.

    :param title: what a button says.
    :param description: what happens then, in a sentence.
    :param means: how Airflow is asked.
    :param required: what must be given. A required reason has at least `REASON_SHORTEST` characters.
    :param possible: whether it makes sense now, by what the read model knows.
    :param command: the verb of the command line.
    :param workflow: the workflow that carries it out, by its name in `slipway.workflows`; "" for an answer, which goes
        to the run that asks.
    :param run_name: what its run is called, by the values of the run's form; None: as Airflow names it.
    :param optional: what may be given.
    :param action: the value of the workflow's parameter `action`; "" if it has none.
    :param answer: which answer it gives; "" if it gives none.
    :param alarming: it can change the version that users get, so ask for confirmation.
    :param on_old_data: it gives no users a version and deletes nothing, so it is offered however old the data is. Any
        other act waits for current data.
    :param one_at_a_time: it starts no second run while one about the same subject is under way.
    :param any_reason: an optional reason can have any length.
    :param places: the pages that offer it.
    :param offered: which versions its form offers on a page about several.
    :param emphasis: how its button looks.
    """

    name: str
    title: str
    description: str
    means: Means
    required: tuple[Field, ...]
    possible: Callable[[Situation], Availability]
    command: Command
    workflow: str = ""
    run_name: Callable[[Mapping[str, Any]], str | None] | None = None
    optional: tuple[Field, ...] = ()
    action: str = ""
    answer: str = ""
    alarming: bool = False
    on_old_data: bool = False
    one_at_a_time: bool = False
    any_reason: bool = False
    places: frozenset[Place] = field(default_factory=frozenset)
    offered: Offered = "fitting"
    emphasis: Emphasis = ""

    @property
    def fields(self) -> tuple[Field, ...]:
        """What the act takes."""
        return self.required + self.optional

    @property
    def verb(self) -> str:
        """What the command line calls it."""
        return self.name.replace("_", "-")
