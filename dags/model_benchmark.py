"""
### Is the live version still fast enough?

Loads a published version on the staging Triton under a separate name, and measures it by the release file's
`benchmark`, as a release does. It does not touch live servers or releases. A release file's `benchmark.schedule` starts
it (`scheduled_measurements`), and so can a person. It measures the live version unless the form names another one.

| task | what it does |
|---|---|
| prepare | selects the version; skips the run if nothing is live or a release is under way |
| measure | runs a load generator in a pod and compares the result with `benchmark.slo` |
| unload | unloads the version in every case |

The result is the page `models/MODEL/VERSION/evidence/benchmark-RUN/benchmark.html`. If a live version misses a limit,
the run opens the **finding** `VERSION-benchmark`, notifies people (`drift_found`), and fails. The next run that meets
the limits closes the finding. Nothing is rolled back. A benchmark that could not be measured never counts as a pass.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from slipway.dag_header import OWN_PRIORITY, header, model_param, releases_dir, version_param
from slipway.operators.measuring.measure import MeasureVersionOperator, UnloadMeasuredOperator
from slipway.operators.measuring.prepare import PrepareBenchmarkOperator
from slipway.pools import STAGING_POOL
from slipway.workflows import MODEL_BENCHMARK

PARAMS = {
    "model": model_param(),
    "version": version_param("A published version. Empty: the live version.", is_needed=False),
}


@dag(
    dag_id=MODEL_BENCHMARK,
    dag_display_name="Model benchmark",
    description="Measures the live version of a model on staging, and says whether it is still fast enough.",
    schedule=None,
    params=PARAMS,
    # Two of one model would unload each other's version.
    max_active_runs=1,
    **header(
        __doc__,
        "operations",
        retries=2,
        retry_delay=timedelta(seconds=30),
        retry_exponential_backoff=True,
        execution_timeout=timedelta(minutes=30),
        weight_rule=OWN_PRIORITY,
    ),
)
def model_benchmark() -> None:
    """Name the version, measure, unload."""
    prepare = PrepareBenchmarkOperator(
        task_id="prepare",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Selects the version to measure.",
    )
    measure = MeasureVersionOperator(
        task_id="measure",
        # One at a time on the one staging server.
        pool=STAGING_POOL.name,
        execution_timeout=timedelta(hours=8),
        doc_md="Loads the version on staging, measures it, writes the page, and opens or closes the finding.",
    )
    unload = UnloadMeasuredOperator(
        task_id="unload",
        execution_timeout=timedelta(hours=4),
        doc_md="Unloads the version and removes its copy. Always runs.",
    )
    prepare >> measure >> unload.as_teardown(setups=prepare)


model_benchmark()
