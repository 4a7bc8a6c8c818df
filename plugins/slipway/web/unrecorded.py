"""What no record knows, for pages: runs that wait, and what is uploaded but cannot be released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slipway.read_model.reader import ALL
from slipway.web.health.parts import SCHEDULER, health_now
from slipway.web.sources import Sources
from slipway.web.waiting_runs import known_waiting
from slipway_core.errors import SlipwayError
from slipway_core.read_model.documents import ModelDocument, Unreadable
from slipway_core.read_model.landed import LandedProblem, by_model
from slipway_core.read_model.waiting import WaitingRun


@dataclass(frozen=True)
class Unrecorded:
    """Both, by model; each is empty where it cannot be read, which `problem` then says."""

    waiting: Mapping[str, tuple[WaitingRun, ...]] = field(default_factory=dict)
    unusable: Mapping[str, tuple[LandedProblem, ...]] = field(default_factory=dict)
    problem: str = ""
    scheduler: str = ""

    def runs_of(self, model: str) -> tuple[WaitingRun, ...]:
        """Return the runs of a model that wait."""
        return self.waiting.get(model, ())

    def unusable_of(self, model: str) -> tuple[LandedProblem, ...]:
        """Return what of a model has landed and starts nothing."""
        return self.unusable.get(model, ())


def unrecorded(
    sources: Sources, documents: Mapping[str, ModelDocument | Unreadable], model: str = ALL
) -> Unrecorded:
    """Return what no record knows of a model, or of every one.

    :param documents: of the models, whose open releases are in a record by now.
    """
    problems: list[str] = []
    recorded = {
        document.open_release.release_id
        for document in documents.values()
        if isinstance(document, ModelDocument) and document.open_release is not None
    }
    known = known_waiting()
    if known is None or known.problem:
        problems.append("The runs that wait in Airflow are currently unknown.")
    waiting: dict[str, tuple[WaitingRun, ...]] = {}
    for run in () if known is None else known.value:
        if run.run_id not in recorded:
            waiting[run.model] = (*waiting.get(run.model, ()), run)
    try:
        unusable = by_model(sources.read_model.known_landed(model).value)
    except SlipwayError:
        unusable = {}
        problems.append("New uploads are currently unknown.")
    silent = next((part.sentence for part in health_now().wrong if part.name == SCHEDULER), "")
    return Unrecorded(waiting, unusable, " ".join(problems), silent if waiting else "")
