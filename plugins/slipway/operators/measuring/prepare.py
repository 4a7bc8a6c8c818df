"""The first task of a benchmark outside of a release: which version is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slipway.operators.revalidation.base import RevalidationOperator
from slipway.operators.revalidation.live_look import LiveLook, require_live_version
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import benchmark_id
from slipway_core.identifiers import parse_version
from slipway_core.spec.run_overrides import BENCHMARK_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context


class PrepareBenchmarkOperator(RevalidationOperator):
    """Names the version to measure: that of the run's Params, else the live one.

    Where nothing is live, or a release is under way, which measures the live version itself, the run is skipped.

    :returns: a release run whose id is the benchmark's, for the tasks that follow.
    """

    def run(self, context: Context) -> dict[str, Any]:
        """Check what was asked for.

        :raises AirflowSkipException: there is nothing to measure now.
        :raises InputMissingError: the version was not published.
        """
        params = context["params"]
        require_known(params, BENCHMARK_PARAMETERS)
        spec = self.spec_of(str(params["model"]))
        store = self.store_of(spec)
        if params.get("version") is None:
            look = LiveLook(store, spec, context, kubernetes_conn_id=self.kubernetes_conn_id)
            version = require_live_version(look.live(), spec.model)
        else:
            version = parse_version(params["version"])
        ModelRegistry(store).require(spec.model, version)
        run = ReleaseRun(
            release_id=benchmark_id(context["run_id"]),
            model=spec.model,
            version=version,
            bucket=self.bucket,
            spec=spec,
            stable=None,
        )
        return run.model_dump(mode="json")
