"""
### Examines the installation

Every day it tries what a release needs (`slipway doctor`, in a worker): connections, rights, bucket, queue, KServe,
gateway, metrics, images, staging, clocks, Airflow's options, the guard, the release files. The dashboard's page
*Installation* shows what was found, with its age. The run fails where a line has failed; what could not be examined
is on the page.

It writes small objects below `operations/store-probe/`, removes them, and keeps the report.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, dag

from slipway.dag_header import cron, header, releases_dir
from slipway.operators.operations.examine_installation import ExamineInstallationOperator
from slipway.workflows import INSTALLATION_EXAMINATION

PARAMS = {
    "write": Param(
        True,
        type="boolean",
        title="Try conditional writes",
        description="With objects below operations/store-probe/, which are removed again.",
    ),
    "event": Param(
        False,
        type="boolean",
        title="Upload an object",
        description="It starts nothing, and its event must come to the queue.",
    ),
    "plant": Param(
        False,
        type="boolean",
        title="Plant faults",
        description="Deploys a model slipway-doctor, whose errors and hangs must be counted, and removes it again.",
    ),
}


@dag(
    dag_id=INSTALLATION_EXAMINATION,
    dag_display_name="Installation: examine it",
    description="Tries what a release needs, and keeps what was found for the dashboard.",
    schedule=cron("SLIPWAY_DOCTOR_CRON", "30 4 * * *"),
    max_active_runs=1,
    params=PARAMS,
    **header(__doc__, "operations", retries=1, execution_timeout=timedelta(minutes=15)),
)
def installation_examination() -> None:
    """Examine it, and keep the report."""
    ExamineInstallationOperator(
        task_id="examine",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Fails where a line has failed; the page Installation has all of them.",
    )


installation_examination()
