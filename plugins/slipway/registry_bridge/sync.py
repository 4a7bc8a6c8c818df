"""One sync of one model with its registry: what was promoted there is brought in, and its outcome is written there."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.mlflow_registry import MlflowHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry_bridge.arrival import RegistryArrival
from slipway.registry_bridge.artifacts import Artifacts
from slipway.registry_bridge.marks import RegistryMarks
from slipway.traffic.reconciler import observe_service
from slipway_core.errors import TransientError, UserError
from slipway_core.operations.registry_answers import RegisteredModel, RegistryVersion
from slipway_core.operations.registry_arrival import Step
from slipway_core.operations.registry_marks import arrival_tags
from slipway_core.spec.registry import MlflowModel
from slipway_core.spec.release_file import ReleaseSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SyncResult:
    """What a sync found of the version that carries the alias, and how many aliases and tags it set.

    `refused` says why that version cannot be brought in; `is_news`: the registry was not informed of it before.
    """

    version: int | None
    step: Step | None = None
    refused: str | None = None
    is_news: bool = False
    changes: int = 0


class RegistrySync:
    """Brings a model and its registered model into line, however often it is run.

    :param aws_conn_id: for artifacts that lie in S3 themselves.
    """

    def __init__(
        self,
        spec: ReleaseSpec,
        wanted: MlflowModel,
        store: ModelStoreHook,
        mlflow: MlflowHook,
        service: KServeHook,
        *,
        aws_conn_id: str,
    ) -> None:
        self._wanted = wanted
        self._mlflow = mlflow
        self._service = service
        name = wanted.registered_model
        artifacts = Artifacts(mlflow, wanted, aws_conn_id, mlflow.answer_limit_s)
        self._arrival = RegistryArrival(store, spec.model, name, artifacts)
        self._marks = RegistryMarks(store, spec.model, mlflow, name)

    def run(self) -> SyncResult:
        """Sync once.

        An arrival that fails does not keep the registry from getting the outcomes of other versions.

        :raises TransientError: something did not answer; what was done stays, and the next sync goes on.
        :raises UserError: the registered model is not there, or MLflow refuses.
        """
        name = self._wanted.registered_model
        registered = self._mlflow.registered_model(name)
        versions = self._mlflow.newest_versions(name)
        later: TransientError | None = None
        result = SyncResult(None)
        try:
            result = self._promoted(registered, versions)
        except TransientError as error:
            log.warning("the promoted version is not imported now: %s", error)
            later = error
        changes = self._marks.follow(registered, versions, observe_service(self._service))
        if later is not None:
            raise later
        return SyncResult(
            result.version, result.step, result.refused, result.is_news, result.changes + changes
        )

    def _promoted(self, registered: RegisteredModel, versions: Sequence[RegistryVersion]) -> SyncResult:
        """Bring in the version that carries the alias, if one does."""
        number = registered.aliases.get(self._wanted.alias)
        if number is None:
            return SyncResult(None)
        version = next((one for one in versions if one.number == number), None)
        if version is None:
            version = self._mlflow.version(registered.name, number)
        step: Step | None = None
        problem = None
        try:
            step = self._arrival.bring_in(version)
        except UserError as error:
            problem = error
        if step == "wait":
            return SyncResult(number, step)
        reason = None if problem is None else problem.in_short()
        changes = self._marks.tag(version, arrival_tags(reason))
        return SyncResult(
            number, step, None if problem is None else str(problem), is_news=changes > 0, changes=changes
        )
