"""What one run of `repository_gc` writes for itself: which plans it has shown, and what came of each."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from slipway_core.operations.documents import OperationsDocument
from slipway_core.operations.retention import Count, Number
from slipway_core.value_types import Sha256, UtcTime

Outcome = Literal["deleted", "kept"]


class RunPlan(OperationsDocument):
    """The plan of a whole run. `plans` are the digests of the models' plans; its own digest is what people agree to."""

    called: ClassVar[str] = "plan of a run"

    schema_version: Literal[1] = 1
    run: str
    started_by: str | None
    dry_run: bool
    at: UtcTime
    plans: dict[str, Sha256]
    not_planned: tuple[str, ...] = ()


class VersionResult(BaseModel):
    """What became of a version that was to be deleted. `size_bytes` is what this try has removed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Number
    outcome: Outcome
    why: str
    objects: Count = 0
    size_bytes: Count = 0


class ModelResult(OperationsDocument):
    """What became of a model's versions that were to be deleted."""

    called: ClassVar[str] = "result of a deletion"

    schema_version: Literal[1] = 1
    model: str
    versions: tuple[VersionResult, ...] = ()
