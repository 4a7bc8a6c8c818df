"""
### Brings an earlier version back, by hand

For a version that went through every gate and is bad all the same. Name the model and say why; without a version it is
the one that was live before. The reason and your name go into the record of the version that is left.

| what runs | what it does |
|---|---|
| admit | ends a canary under way first: its users are back within seconds. Then names the version to go back to |
| staging | the version is loaded on the staging Triton and answers the golden set: does it still do what it did? |
| approve | for a version that is newer than what is live: another person agrees |
| roll_back | KServe is led back: while the good version boots, nobody more is sent to the bad one |
| conclude | the record is closed; a green run is a rolled back version |
| announce | DAGs that are scheduled on `x-slipway://models/MODEL/rolled-back` start |

The version to go back to must be one that its record shows promoted, and its files must be what was published. With
`emergency` it is not tried on staging first. An emergency without a version leads to what was live before and needs
nothing but the cluster: neither S3 nor staging nor the metrics nor a right release file. What cannot be written then is
written when S3 is back. A canary is ended from the namespace and the name of its InferenceService alone; a lease that
cannot be written and a release file that is wrong are told, and fail the run, when its users are back.
The version that was left is rejected: `version_rejection` lifts that, and then it needs *Release again*.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, TaskGroup, dag

from airflow_provider_triton.operators import TritonUnloadModelOperator
from slipway.dag_header import (
    OWN_PRIORITY,
    WAY_BACK,
    header,
    model_param,
    reason_param,
    releases_dir,
    version_param,
)
from slipway.hooks.triton import STAGING_CONN_ID
from slipway.operators.approval import ApproveReleaseOperator
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.operators.operations.announce import AnnounceReleaseOperator
from slipway.operators.rollback import (
    NameRollbackOperator,
    RollBackVersionOperator,
    TryRollbackOperator,
)
from slipway.operators.staging import LoadCandidateOperator, PrepareStagingOperator
from slipway.operators.validate import ValidateModelOperator
from slipway.release_run import release_template
from slipway.workflows import MODEL_ROLLBACK


def _address_param(title: str, description: str) -> Param:
    """Return the field of a name in the cluster, which may stay empty."""
    return Param(None, type=["null", "string"], maxLength=63, title=title, description=description)


PARAMS = {
    "model": model_param(),
    "version": version_param(
        "The version to make live again. Empty: the one that was live before.", is_needed=False
    ),
    "leave": version_param(
        "The version to leave. If another one is live by then, nothing is done. Empty: what is live.",
        is_needed=False,
        title="Leave",
    ),
    "reason": reason_param("Why; it goes into the record, under your run."),
    "newer": Param(
        False,
        type="boolean",
        title="To a newer version",
        description="The version is newer than what is live; another person must approve.",
    ),
    "emergency": Param(
        False,
        type="boolean",
        title="Emergency",
        description="Do not try the version on staging first. Without a version: needs only the cluster.",
    ),
    "namespace": _address_param(
        "Namespace", "Where the InferenceService is, if the release file cannot be read. Empty: as that says."
    ),
    "inference_service": _address_param(
        "InferenceService", "Its name, if the release file cannot be read. Empty: as that says."
    ),
}

# The release run of the version that staging tries.
TRIED = release_template("staging.begin")
PREPARED = "ti.xcom_pull(task_ids='staging.prepare')"


@dag(
    dag_id=MODEL_ROLLBACK,
    dag_display_name="Model rollback",
    description="Back to an earlier version of a model, by hand, with a reason.",
    schedule=None,
    params=PARAMS,
    **header(
        __doc__,
        "release",
        # Before whatever else waits for a worker, as the way back in model_release.
        weight_rule=OWN_PRIORITY,
        priority_weight=WAY_BACK,
        retries=10,
        retry_delay=timedelta(seconds=5),
        retry_exponential_backoff=True,
        max_retry_delay=timedelta(minutes=1),
        execution_timeout=timedelta(hours=1),
    ),
)
def model_rollback() -> None:
    """Wire the steps; what each does is its operator's."""
    admit = NameRollbackOperator(
        task_id="admit",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Ends a canary that is under way, then names the version to go back to.",
    )
    with TaskGroup("staging", tooltip="Does the version still do what it did?"):
        begin = TryRollbackOperator(
            task_id="begin",
            first_task_id="staging.prepare",
            doc_md="Skips the rest of the group in an emergency: users go first.",
        )
        prepare = PrepareStagingOperator(
            task_id="prepare",
            release=TRIED,
            doc_md="Copies the version into the staging server's repository.",
        )
        load = LoadCandidateOperator(
            task_id="load",
            release=TRIED,
            model_name=f"{{{{ {PREPARED}['candidate']['name'] }}}}",
            config=f"{{{{ {PREPARED}['candidate']['config'] | tojson }}}}",
            members=f"{{{{ {PREPARED}['candidate']['members'] | tojson }}}}",
            timeout_s=f"{{{{ {PREPARED}['load_timeout_s'] }}}}",
            doc_md="Loads the version through the model-control API.",
        )
        validate = ValidateModelOperator(
            task_id="validate",
            release=TRIED,
            staging=f"{{{{ {PREPARED} | tojson }}}}",
            # The scorer's pod of `kind: custom` is waited for in the triggerer.
            deferrable=True,
            execution_timeout=timedelta(hours=2),
            doc_md="Golden requests: right answers, as when the version was released.",
        )
        unload = TritonUnloadModelOperator(
            task_id="unload",
            model_names=f"{{{{ {PREPARED}['model_names'] | tojson }}}}",
            triton_conn_id=STAGING_CONN_ID,
            doc_md="Unloads it. Runs whatever happened.",
        )
        begin >> prepare >> load >> validate >> unload.as_teardown(setups=prepare)
    approve = ApproveReleaseOperator(
        task_id="approve",
        before="promotion",
        trigger_rule="none_failed_min_one_success",
        doc_md="For a version that is newer than what is live: waits for another person.",
    )
    roll_back = RollBackVersionOperator(
        task_id="roll_back",
        doc_md="Moves all traffic to the named version, in four phases.",
    )
    conclude = ConcludeReleaseOperator(
        task_id="conclude",
        wanted="rolled_back",
        doc_md="Closes the record and gives the model's lock back.",
    )
    announce = AnnounceReleaseOperator(
        task_id="announce",
        params_name_version=False,
        doc_md="Emits the asset event `rolled-back` on which other DAGs start, where the record says so. The run's own "
        "outcome does not depend on it.",
    )
    admit >> begin
    [begin, validate] >> approve >> roll_back
    [unload, roll_back] >> conclude.as_teardown(setups=admit, on_failure_fail_dagrun=True)
    conclude >> announce.as_teardown(setups=admit)


model_rollback()
