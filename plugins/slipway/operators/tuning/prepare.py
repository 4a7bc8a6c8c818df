"""The first task of a tuning: what is searched, and the version in the staging server's repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.failures import airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.operations.form import FormOperator
from slipway.operators.revalidation.live_look import LiveLook, require_live_version
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import signing_key_of
from slipway.release_context import make_store
from slipway.release_run import ReleaseRun
from slipway.tuning.evidence import TuningEvidence
from slipway.tuning.staged import place_trials, trial_names, unload_models
from slipway_core.bucket_layout import tuning_id
from slipway_core.errors import UserError
from slipway_core.identifiers import parse_version
from slipway_core.publishing.engine import require_loadable
from slipway_core.spec.release_file import ReleaseSpec, apply_overrides, load_model_spec
from slipway_core.spec.run_overrides import TUNING_PARAMETERS, require_known
from slipway_core.spec.serving.sequences import require_no_sequences
from slipway_core.triton_config.ensemble import pin_bundle
from slipway_core.triton_config.staged_paths import SERVING_ROOT, names_files
from slipway_core.tuning.settings import (
    present_setting,
    require_tunable,
    space_of,
    triton_defaults,
)
from slipway_core.tuning.trials import TuningPlan

if TYPE_CHECKING:
    from airflow.sdk import Context

_OVERRIDES = (
    "objective",
    "quantile",
    "request_rate_rps",
    "latency_max_ms",
    "trials",
    "budget_s",
    "seed",
)


class PrepareTuningOperator(FormOperator):
    """Checks what was asked for, writes the run's plan, and copies the version to the staging server's repository.

    What an earlier tuning of the model has left loaded there, because it was killed, is unloaded first. Run again, it
    keeps the plan that the run has.

    :param triton_conn_id: the staging server.
    :param kubernetes_conn_id: the cluster, which is asked what is live where the run names no version.
    :returns: a release run whose id is the tuning's, for the tasks that follow.
    """

    template_fields: Sequence[str] = FormOperator.template_fields

    def __init__(
        self,
        *,
        triton_conn_id: str = TritonHook.default_conn_name,
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id
        self.triton_conn_id = triton_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Prepare; what a person must change is not tried again."""
        with airflow_failures():
            return self._prepare(context, context["params"], context["run_id"])

    def _prepare(self, context: Context, params: Mapping[str, Any], run_id: str) -> dict[str, Any]:
        require_known(params, TUNING_PARAMETERS)
        spec = self._spec(params)
        store = make_store(self.bucket, spec, self.aws_conn_id)
        run = ReleaseRun(
            release_id=tuning_id(run_id),
            model=spec.model,
            version=self._version(context, store, spec, params.get("version")),
            bucket=self.bucket,
            spec=spec,
            stable=None,
        )
        registry = ModelRegistry(store)
        manifest, digest = registry.require_with_digest(run.model, run.version)
        require_loadable(manifest.engines, spec.serving.hardware, where="the staging server")
        key = signing_key_of(spec)
        if key is not None:
            registry.require_signed(manifest, key)
        configs = pin_bundle(registry.configs(manifest), run.version)
        require_no_sequences(configs)
        config = require_tunable(configs, run.model)
        if names_files({run.model: dict(config)}, {SERVING_ROOT}):
            raise _unfit("its configuration has absolute file paths", "a model without absolute paths")
        plan = TuningPlan(
            model=run.model,
            version=run.version,
            run=run_id,
            manifest_sha256=digest,
            tuning=spec.tuning,
            slo=spec.benchmark.slo,
            space=space_of(spec.tuning.search, config),
            defaults=triton_defaults(config),
            present=present_setting(config),
        )
        kept = TuningEvidence(store, run.model, run.version, run.release_id).keep_plan(plan)
        for what, why in kept.space.left_out.items():
            self.log.info("not searched: %s: %s", what, why)
        limit_s = float(spec.serving.load_timeout_s)
        unload_models(TritonHook(self.triton_conn_id, limit_s), trial_names(run.model), limit_s)
        place_trials(store, manifest, config)
        return run.model_dump(mode="json")

    def _version(self, context: Context, store: ModelStoreHook, spec: ReleaseSpec, asked: object) -> int:
        """Return the version that was asked for, else the one that is live."""
        if asked is not None:
            return parse_version(asked)
        look = LiveLook(store, spec, context, kubernetes_conn_id=self.kubernetes_conn_id)
        return require_live_version(look.live(), spec.model)

    def _spec(self, params: Mapping[str, Any]) -> ReleaseSpec:
        spec = load_model_spec(Path(self.releases_dir), str(params["model"]))
        asked = {name: params[name] for name in _OVERRIDES if params.get(name) is not None}
        spec = apply_overrides(spec, {"tuning": asked}, "the run's parameters") if asked else spec
        if spec.benchmark.generator != "perf_analyzer":
            raise _unfit(f"`benchmark.generator` is {spec.benchmark.generator}", "`perf_analyzer`")
        return spec


def _unfit(found: str, expected: str) -> UserError:
    return UserError(
        "this model cannot be tuned here", expected=expected, found=found, remedy="tune its server by hand"
    )
