"""
### Brings an earlier version back, by hand

For a version that went through every gate and is bad all the same. Name the model and say why; without a version it is
the one that was live before. The reason goes into the record of the version that is left.

| what runs | what it does |
|---|---|
| admit | ends a canary under way first: its users are back within seconds. Then names the version to go back to |
| roll_back | KServe is led back: while the good version boots, nobody more is sent to the bad one |
| conclude | the record is closed; a green run is a rolled back version |

It needs neither the metrics nor staging. Where S3 is away, users go first and the record is written when S3 is back.
The version that was left needs *Release again* before it can be released anew.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import Param, dag
from slipway.operators.release import ConcludeReleaseOperator
from slipway.operators.rollback import DAG_ID, NameRollbackOperator, RollBackVersionOperator

from include.model_release.names import list_models

RELEASES_DIR = Path(
    os.environ.get("SLIPWAY_RELEASES_DIR", Path(__file__).parent.parent / "include" / "releases")
)

PARAMS = {
    "model": Param(
        type="string",
        enum=list_models(RELEASES_DIR),
        title="Model",
        description="One of the release files in include/releases/.",
    ),
    "version": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Version",
        description="The version that shall be live again. Empty: the one that was live before.",
    ),
    "reason": Param(
        type="string",
        minLength=3,
        maxLength=500,
        title="Reason",
        description="Why; it goes into the record, under your run.",
    ),
}


@dag(
    dag_id=DAG_ID,
    dag_display_name="Model rollback",
    description="Back to an earlier version of a model, by hand, with a reason.",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    params=PARAMS,
    tags=["slipway", "release"],
    default_args={
        "owner": "slipway",
        "retries": 10,
        "retry_delay": timedelta(seconds=5),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(hours=1),
    },
)
def model_rollback() -> None:
    """Wire the three steps; what each does is its operator's."""
    admit = NameRollbackOperator(
        task_id="admit",
        releases_dir=str(RELEASES_DIR),
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Ends a canary that is under way, then names the version to go back to.",
    )
    roll_back = RollBackVersionOperator(
        task_id="roll_back", doc_md="Leads all traffic to the named version, in four phases."
    )
    conclude = ConcludeReleaseOperator(
        task_id="conclude",
        wanted="rolled_back",
        doc_md="Closes the record and gives the model's lock back.",
    )
    admit >> roll_back >> conclude.as_teardown(setups=admit, on_failure_fail_dagrun=True)


model_rollback()
