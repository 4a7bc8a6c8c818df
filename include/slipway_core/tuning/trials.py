"""What is kept of a tuning: its plan, its trials and the confirmation, each a document beside the evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import UserError
from slipway_core.spec.benchmark import ServiceLevel
from slipway_core.spec.load import LoadLevel
from slipway_core.spec.tuning import Tuning
from slipway_core.tuning.settings import Setting, Space

TrialKind = Literal["defaults", "present", "search", "defaults_again"]
TrialState = Literal["begun", "complete", "hopeless", "failed"]
_Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class TuningDocument(BaseModel):
    """A document of a tuning in the bucket."""

    # Built when one is first read: importing a DAG reads none.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    limit_bytes: ClassVar[int] = 4 * 2**20

    @classmethod
    def from_bytes(cls, body: bytes, name: str) -> Self:
        """Read the document.

        :param name: what an error calls it.
        :raises UserError: it has another form.
        """
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise UserError(
                f"{name} is not a valid tuning document",
                expected="what `model_tuning` has written",
                found=first_problem(error),
                remedy="start a new run of `model_tuning`",
            ) from error

    def to_bytes(self) -> bytes:
        """Return the document as JSON."""
        return (self.model_dump_json(indent=2) + "\n").encode()


class TuningPlan(TuningDocument):
    """What one run does; written once, before its first trial, so that a later try of it does the same."""

    model: str
    version: int
    run: str
    manifest_sha256: str
    tuning: Tuning
    slo: ServiceLevel
    space: Space
    defaults: Setting
    present: Setting


class Point(BaseModel):
    """One measurement: a load, and the figures of its requests."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    round: Annotated[int, Field(ge=1)]
    load: LoadLevel
    requests: _Count
    errors: _Count
    throughput_rps: _Figure
    p50_ms: _Figure
    p90_ms: _Figure
    p95_ms: _Figure
    p99_ms: _Figure


class Trial(TuningDocument):
    """One setting, measured; written when it begins and when it ends.

    :param number: from 0; trial 0 is that of Triton's defaults.
    :param seconds: how long it took, its loads included.
    :param reason: why it ended early, or failed.
    """

    number: int
    kind: TrialKind
    setting: Setting
    state: TrialState = "begun"
    points: tuple[Point, ...] = ()
    seconds: _Figure = 0.0
    reason: str = ""

    def ended(self, state: TrialState, points: Iterable[Point], seconds: float, reason: str = "") -> Trial:
        """Return the trial as it ended."""
        update = {"state": state, "points": tuple(points), "seconds": round(seconds, 3), "reason": reason}
        return self.model_copy(update=update)


class TrialComparison(TuningDocument):
    """Two settings measured in turns: the best one, and the one that it is compared with."""

    against: Literal["defaults", "present"]
    candidate: Setting
    baseline: Setting
    candidate_points: tuple[Point, ...]
    baseline_points: tuple[Point, ...]
