"""
### Keeps the model registry and the releases in line

For each model whose release file has a `registry` section, in both directions:

- **in**: downloads the version with the configured alias (`candidate` by default) to `incoming/MODEL/VERSION/`,
  `ready.json` last. `model_intake` starts its release like that of any other version.
- **back**: sets the alias `live` to the version that has the users, and `previous` to the version that
  `model_rollback` goes to. Tags of each version give the outcome of its release, its record and its manifest's digest.

It is safe to run at any time: it leaves alone what is already right, and the next run fixes what this one could not
reach. No release waits for it. MLflow's webhook starts a run for one model at once.

If no release file has the section, the DAG has no schedule.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from slipway.dag_header import cron, has_registry, header, model_or_all_param, releases_dir
from slipway.operators.registry.sync import ListRegistryModelsOperator, SyncRegistryOperator
from slipway.workflows import REGISTRY_SYNC

PARAMS = {
    "model": model_or_all_param("every model whose release file has a `registry`"),
}
AT_ONCE = 4


@dag(
    dag_id=REGISTRY_SYNC,
    dag_display_name="Registry: sync",
    description="Imports versions promoted in MLflow's registry; sets aliases and tags there to the outcome.",
    schedule=cron("SLIPWAY_REGISTRY_SYNC_CRON", "*/5 * * * *") if has_registry(releases_dir()) else None,
    params=PARAMS,
    max_active_runs=1,
    **header(
        __doc__,
        "operations",
        retries=1,
        retry_delay=timedelta(seconds=20),
        execution_timeout=timedelta(hours=2),
    ),
)
def registry_sync() -> None:
    """List the models that have a registry, sync each."""
    models = ListRegistryModelsOperator(
        task_id="list_models",
        releases_dir=str(releases_dir()),
        doc_md="Lists the models to sync.",
    )
    SyncRegistryOperator.partial(
        task_id="sync",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        max_active_tis_per_dagrun=AT_ONCE,
        map_index_template="{{ task.model }}",
        doc_md="Imports the promoted version; corrects aliases and tags.",
    ).expand(model=models.output)


registry_sync()
