"""Staging: a published version on a Triton of its own, beside the stable one that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from include.model_release.model_config import pin_versions, rename_config
from include.model_release.repository import Role, staged_key, staged_name
from include.triton_config import from_pbtxt, to_pbtxt
from slipway.hooks.registry import ModelRegistry
from slipway.operators.base import ReleaseOperator, ReleaseStep, recorded_stage
from slipway.operators.triton import TritonLoadModelOperator
from slipway.ticket import TICKET_TEMPLATE

if TYPE_CHECKING:
    from airflow.sdk import Context


class StagedModel(BaseModel):
    """A version as the staging server knows it: the model's name there and the whole configuration to load."""

    model_config = ConfigDict(frozen=True)

    name: str
    version: int
    config: dict[str, Any]


class Staging(BaseModel):
    """What is on staging for one release; there is no baseline where nothing is live yet."""

    model_config = ConfigDict(frozen=True)

    candidate: StagedModel
    baseline: StagedModel | None


class PrepareStagingOperator(ReleaseOperator):
    """Copies the candidate and the stable version into the staging server's model repository.

    Each gets a folder of its own, so that each is served with its own configuration and both can be measured in
    the same run.

    :return: a `Staging` as a mapping.
    """

    def run(self, context: Context) -> dict[str, Any]:
        """Copies both; the stage goes on when the candidate is loaded."""
        ticket = self.ticket
        self.record.append("stage_started", stage="stage")
        stable = ticket.stable
        staging = Staging(
            candidate=self._place(ticket.model, ticket.version, "candidate"),
            baseline=None if stable is None else self._place(ticket.model, stable.version, "stable"),
        )
        return staging.model_dump(mode="json")

    def _place(self, model: str, version: int, role: Role) -> StagedModel:
        """Copies one version, checked against its manifest, and pins it in the configuration to load."""
        registry = ModelRegistry(self.store)
        manifest = registry.require(model, version)
        name = staged_name(model, role)
        registry.copy_to_staging(manifest, name)
        config = pin_versions(rename_config(from_pbtxt(registry.config_text(manifest)), name), [version])
        self.store.write(staged_key(f"{model}/config.pbtxt", name), to_pbtxt(config).encode())
        return StagedModel(name=name, version=version, config=config)


class LoadCandidateOperator(ReleaseStep, TritonLoadModelOperator):
    """`TritonLoadModelOperator` for the candidate: whether it loads is the release's stage ``stage``."""

    template_fields: Sequence[str] = ("release", *TritonLoadModelOperator.template_fields)

    def __init__(
        self, *, release: str = TICKET_TEMPLATE, aws_conn_id: str = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id

    def load(self) -> list[int]:
        """Loads the candidate and records how that went."""
        with recorded_stage(self.record, "stage", resumed=True):
            return super().load()

    def load_answered(self, event: dict[str, Any]) -> list[int]:
        """Goes on when the server has answered the load."""
        with recorded_stage(self.record, "stage", resumed=True):
            return super().load_answered(event)
