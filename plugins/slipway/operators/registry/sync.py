"""Syncs with a model registry: which models have one, and one sync of each.

What talks to a registry is imported by the task: the DAG's file is read often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from slipway.failures import SET_ASIDE_KEY, PlainFailure, airflow_failures
from slipway_core.errors import UserError
from slipway_core.identifiers import list_models
from slipway_core.spec.registry import MlflowModel
from slipway_core.spec.release_file import ReleaseSpec, load_model_spec
from slipway_core.spec.run_overrides import SYNC_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context

    from slipway.registry_bridge.sync import SyncResult

ANSWER_LIMIT_S = 20.0
"""How long MLflow may take for an answer."""
STORE_LIMIT_S = 60.0
"""How long the object store may, which answers an upload of gigabytes when it has checked it."""


class ListRegistryModelsOperator(BaseOperator):
    """Lists the models to sync: the one of the run's form, else all whose release file has a `registry`.

    A release file that cannot be read keeps no other model from its sync; nor do two that name the same registered
    model: neither is synced, since each would move the other's aliases.

    :param releases_dir: the folder with the release files.
    :returns: their names, sorted. The XCom ``set_aside`` names what is not synced because something is wrong with it.
    """

    def __init__(self, *, releases_dir: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir

    def execute(self, context: Context) -> list[str]:
        """Read the release files.

        :raises PlainFailure: the model that was asked for has no registry, or cannot be synced.
        """
        params = context["params"]
        with airflow_failures():
            require_known(params, SYNC_PARAMETERS)
            asked = params.get("model")
            found, set_aside = self._read()
            if asked is not None and asked not in found:
                load_model_spec(Path(self.releases_dir), str(asked))
                raise UserError(
                    f"{asked} cannot be synced with a registry",
                    expected="a section `registry` in its release file, and no other model with the same section",
                    found="; ".join(set_aside) or "no such section",
                )
        for reason in set_aside:
            self.log.warning("ignored: %s", reason)
        context["ti"].xcom_push(SET_ASIDE_KEY, set_aside)
        return [str(asked)] if asked is not None else sorted(found)

    def _read(self) -> tuple[dict[str, str], list[str]]:
        """Return the registered model of each model, and why others have none."""
        folder = Path(self.releases_dir)
        found: dict[str, str] = {}
        set_aside = []
        for model in list_models(folder):
            try:
                spec = load_model_spec(folder, model)
            except UserError as error:
                set_aside.append(f"{model}: {error}")
                continue
            if spec.registry is not None:
                found[model] = spec.registry.mlflow.registered_model
        names = Counter(found.values())
        for model, name in list(found.items()):
            if names[name] > 1:
                set_aside.append(f"{model}: another release file names the registered model {name!r}, too")
                del found[model]
        return found, set_aside


class SyncRegistryOperator(BaseOperator):
    """Syncs one model with its registry, in both directions.

    A version that cannot be brought in fails the task once, when the registry is informed, and in every run that was
    asked for this model; other runs name it in the XCom ``set_aside``.

    :param model: its name.
    :param releases_dir: the folder with the release files.
    :param bucket: the bucket (templated).
    :returns: what was found and done.
    """

    template_fields: Sequence[str] = ("bucket",)

    def __init__(
        self,
        *,
        model: str,
        releases_dir: str,
        bucket: str,
        aws_conn_id: str = "aws_default",
        kubernetes_conn_id: str = "kubernetes_default",
        mlflow_conn_id: str = "mlflow_default",
        answer_limit_s: float = ANSWER_LIMIT_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.releases_dir = releases_dir
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self.mlflow_conn_id = mlflow_conn_id
        self.answer_limit_s = answer_limit_s

    def execute(self, context: Context) -> dict[str, Any]:
        """Sync once; what did not answer is tried again, by the task and by the next run."""
        with airflow_failures():
            spec = load_model_spec(Path(self.releases_dir), self.model)
            if spec.registry is None:
                return {}
            result = self._sync(spec, spec.registry.mlflow)
        context["ti"].xcom_push(SET_ASIDE_KEY, [] if result.refused is None else [result.refused])
        if result.refused is not None:
            if result.is_news or context["params"].get("model") is not None:
                raise PlainFailure(result.refused)
            self.log.warning("ignored: %s", result.refused)
        return asdict(result)

    def _sync(self, spec: ReleaseSpec, wanted: MlflowModel) -> SyncResult:
        from slipway.hooks.mlflow_registry import MlflowHook
        from slipway.registry_bridge.sync import RegistrySync
        from slipway.release_context import make_service, make_store

        store = make_store(self.bucket, spec, self.aws_conn_id, answer_limit_s=STORE_LIMIT_S)
        mlflow = MlflowHook(self.mlflow_conn_id, self.answer_limit_s)
        service = make_service(spec.rollout, self.kubernetes_conn_id)
        return RegistrySync(spec, wanted, store, mlflow, service, aws_conn_id=self.aws_conn_id).run()
