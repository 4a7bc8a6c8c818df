"""
### Looks for better values of `serving`, and proposes a change

Tries dynamic batching (delay, preferred sizes) and the number of instances of a **published** version on the staging
Triton, by configuration overrides under names of its own; no live server and no release is touched. The release file's
`tuning` says what is searched, for how long, and what counts; the form below may change that for one run.

| task | what it does |
|---|---|
| prepare | checks the request, writes the plan, copies the version to staging |
| search | Triton's defaults, the present setting, Optuna's suggestions, the defaults again; hopeless trials end early |
| confirm | the best in turns with Triton's defaults, and with the present setting, with an interval of the ratio |
| propose | a report, a page with the Pareto picture, and a diff of the release file where the gain is proved |
| remove_trials | unloads and removes what was tried, whatever happened |

A release file's `tuning.schedule` starts it for the live version (`scheduled_measurements`).

**Nothing is changed.** The diff lies beside the page, `models/MODEL/VERSION/evidence/tuning-RUN/`; a person applies it,
and the next version is released with it. A run that was killed goes on where it was when its task is cleared.

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
    "version": version_param("A version that was published. Empty: the one that is live.", is_needed=False),
    "objective": Param(
        None,
        type=["null", "string"],
        enum=[None, "latency", "throughput"],
        title="Objective",
        description="The lowest latency at a rate of requests, or the most answers within a bound. "
        "Empty: the release file's.",
    ),
    "quantile": Param(
        None,
        type=["null", "string"],
        enum=[None, "p50", "p90", "p95", "p99"],
        title="Latency quantile",
        description="Empty: the release file's.",
    ),
    "request_rate_rps": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        title="Request rate (requests/s)",
        description="For the objective latency. Empty: the release file's.",
    ),
    "latency_max_ms": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        title="Latency bound (ms)",
        description="For the objective throughput. Empty: the release file's.",
    ),
    "trials": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=500,
        title="Trials",
        description="How many settings are tried at most. Empty: the release file's.",
        section="Budget",
    ),
    "budget_s": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=86400,
        title="Budget (s)",
        description="How long the trials may take together. Empty: the release file's.",
        section="Budget",
    ),
    "seed": Param(
        None,
        type=["null", "integer"],
        minimum=0,
        title="Seed",
        description="The same seed and the same measurements give the same trials. Empty: the release file's.",
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
        doc_md="Checks what was asked for, writes the plan, and copies the version to the staging server's repository.",
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
        doc_md="Measures the best in turns with Triton's defaults and with the present setting.",
    )
    remove = RemoveTrialsOperator(
        task_id="remove_trials",
        doc_md="Unloads what was tried and removes its copies. Runs whatever happened.",
    )
    propose = ProposeChangeOperator(
        task_id="propose",
        releases_dir=PLACES["releases_dir"],
        doc_md="Writes the report, the page, and the change to review.",
    )
    prepare >> search >> confirm >> [remove.as_teardown(setups=prepare), propose]


model_tuning()
