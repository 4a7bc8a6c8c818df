"""
### Keeps the model registry and the releases in line

For each model whose release file has a `registry` section, in both directions:

- **in**: the version that carries the alias named there (`candidate` by default) is downloaded to
  `incoming/MODEL/VERSION/`, `ready.json` last. `model_intake` starts its release as that of any other version.
- **back**: the alias `live` leads to the version that has the users, `previous` to the one that `model_rollback` leads
  to; tags of each version name the outcome of its release, its record and the digest of its manifest.

It is safe to run at any time: what is so already is left alone, and what was not reached is put right by the next run.
No release waits for it. MLflow's webhook starts a run for one model at once.

Without a release file that has the section it has no schedule.
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
    description="A version promoted in MLflow's registry arrives; aliases and tags there tell what became of it.",
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
        doc_md="Brings the promoted version in; corrects aliases and tags.",
    ).expand(model=models.output)


registry_sync()
