"""
### Looks for better values of `serving`, and proposes a change

Tries dynamic batching (delay, preferred sizes) and the number of instances for a **published** version on the staging
Triton, with configuration overrides under separate names. It does not touch live servers or releases. The release
file's `tuning` says what to search, for how long, and what counts. The form below can change that for one run.

| task | what it does |
|---|---|
| prepare | checks the request, writes the plan, copies the version to staging |
| search | tries Triton's defaults, the current setting and Optuna's suggestions; ends hopeless trials early |
| confirm | measures the best in turns with Triton's defaults and the current setting; interval of the ratio |
| propose | writes a report, a page with the Pareto chart, and, if the gain is proved, a diff of the release file |
| remove_trials | unloads and removes everything that was tried, in every case |

A release file's `tuning.schedule` starts it for the live version (`scheduled_measurements`).

**Nothing is changed.** The diff is in the page's folder, `models/MODEL/VERSION/evidence/tuning-RUN/`. A person applies
it, and releases the next version with it. If a run was killed, clear its task: the run continues where it was.

Benchmarks of releases on the same staging server wait while a trial is measured: choose `budget_s` accordingly.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, dag

from slipway.dag_header import OWN_PRIORITY, header, model_param, releases_dir, version_param
from slipway.operators.tuning.clean import RemoveTrialsOperator
from slipway.operators.tuning.prepare import PrepareTuningOperator
from slipway.operators.tuning.propose import ProposeChangeOperator
from slipway.operators.tuning.search import ConfirmSettingOperator, SearchSettingsOperator
from slipway.pools import STAGING_POOL
from slipway.workflows import MODEL_TUNING

PARAMS = {
    "model": model_param(),
    "version": version_param("A published version. Empty: the live version.", is_needed=False),
    "objective": Param(
        None,
        type=["null", "string"],
        enum=[None, "latency", "throughput"],
        title="Objective",
        description="The lowest latency at a request rate, or the highest throughput within a latency bound. Empty: "
        "as in the release file.",
    ),
    "quantile": Param(
        None,
        type=["null", "string"],
        enum=[None, "p50", "p90", "p95", "p99"],
        title="Latency quantile",
        description="Empty: as in the release file.",
    ),
    "request_rate_rps": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        title="Request rate (requests/s)",
        description="For the objective latency. Empty: as in the release file.",
    ),
    "latency_max_ms": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        title="Latency bound (ms)",
        description="For the objective throughput. Empty: as in the release file.",
    ),
    "trials": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=500,
        title="Trials",
        description="The maximum number of settings to try. Empty: as in the release file.",
        section="Budget",
    ),
    "budget_s": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=86400,
        title="Budget (s)",
        description="The time limit for all trials together. Empty: as in the release file.",
        section="Budget",
    ),
    "seed": Param(
        None,
        type=["null", "integer"],
        minimum=0,
        title="Seed",
        description="The same seed and the same measurements give the same trials. Empty: as in the release file.",
        section="Budget",
    ),
}
PLACES = {"releases_dir": str(releases_dir()), "bucket": "{{ var.value.slipway_bucket }}"}


@dag(
    dag_id=MODEL_TUNING,
    dag_display_name="Model tuning",
    description="Looks for a faster setting of a version on staging, and proposes a change of its release file.",
    schedule=None,
    params=PARAMS,
    # Two would unload each other's trials, and measure each other.
    max_active_runs=1,
    **header(
        __doc__,
        "operations",
        retries=2,
        retry_delay=timedelta(seconds=10),
        retry_exponential_backoff=True,
        execution_timeout=timedelta(minutes=30),
        weight_rule=OWN_PRIORITY,
    ),
)
def model_tuning() -> None:
    """Prepare, search, confirm, propose; clean up whatever happens."""
    prepare = PrepareTuningOperator(
        task_id="prepare",
        doc_md="Checks the request, writes the plan, and copies the version to the staging server's repository.",
        **PLACES,
    )
    search = SearchSettingsOperator(
        task_id="search",
        # One at a time on the one staging server.
        pool=STAGING_POOL.name,
        # The longest budget, and the trial under way at its end.
        execution_timeout=timedelta(hours=26),
        doc_md="Tries settings, each loaded on staging and measured by a load generator in a pod.",
    )
    confirm = ConfirmSettingOperator(
        task_id="confirm",
        pool=STAGING_POOL.name,
        execution_timeout=timedelta(hours=6),
        doc_md="Measures the best setting in turns with Triton's defaults and with the current setting.",
    )
    remove = RemoveTrialsOperator(
        task_id="remove_trials",
        doc_md="Unloads everything that was tried and removes its copies. Always runs.",
    )
    propose = ProposeChangeOperator(
        task_id="propose",
        releases_dir=PLACES["releases_dir"],
        doc_md="Writes the report, the page, and the change to review.",
    )
    prepare >> search >> confirm >> [remove.as_teardown(setups=prepare), propose]


model_tuning()
