"""
### Rolls back to an earlier version, by hand

For a version that passed every gate but is bad anyway. Give the model and your reason. Without a version, the rollback
goes to the version that was live before. Your name and the reason go into the record of the version that is left.

| task | what it does |
|---|---|
| admit | ends a canary under way: its users are back within seconds. Then selects the version to go back to |
| staging | loads that version on the staging Triton and sends it the golden set: does it still do what it did? |
| approve | if the version is newer than the live one: another person must approve |
| roll_back | moves KServe back: while the good version starts, the bad one gets no new requests |
| conclude | closes the record; a green run is a completed rollback |
| announce | starts DAGs that are scheduled on `x-slipway://models/MODEL/rolled-back` |

The record of the version to go back to must show that it was promoted, and its files must be unchanged. With
`emergency` it is not tested on staging first. An emergency without a version goes to the version that was live before,
and needs only the cluster: not S3, staging, the metrics or a valid release file. What cannot be recorded then is
recorded when S3 is back. Ending a canary needs only the namespace and the name of its InferenceService. If a lease
cannot be written or the release file is invalid, the run reports that and fails, but only after users are back. The
version that was rolled back is rejected: `version_rejection` lifts that, and then it needs *Release again*.
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
        "The version to roll back from. If another one is live by then, nothing is done. Empty: the live version.",
        is_needed=False,
        title="Leave",
    ),
    "reason": reason_param("The reason; it goes into the record, under your run."),
    "newer": Param(
        False,
        type="boolean",
        title="To a newer version",
        description="The version is newer than the live one; another person must approve.",
    ),
    "emergency": Param(
        False,
        type="boolean",
        title="Emergency",
        description="Do not test the version on staging first. Without a version, this needs only the cluster.",
    ),
    "namespace": _address_param(
        "Namespace",
        "The InferenceService's namespace, if the release file cannot be read. Empty: as in the "
        "release file.",
    ),
    "inference_service": _address_param(
        "InferenceService",
        "The InferenceService's name, if the release file cannot be read. Empty: as in the release file.",
    ),
}

# The release run of the version that staging tries.
TRIED = release_template("staging.begin")
PREPARED = "ti.xcom_pull(task_ids='staging.prepare')"


@dag(
    dag_id=MODEL_ROLLBACK,
    dag_display_name="Model rollback",
    description="Rolls a model back to an earlier version, by hand, with a reason.",
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
        doc_md="Ends a canary that is under way, then selects the version to go back to.",
    )
    with TaskGroup("staging", tooltip="Does the version still do what it did?"):
        begin = TryRollbackOperator(
            task_id="begin",
            first_task_id="staging.prepare",
            doc_md="In an emergency, skips the rest of the group: users come first.",
        )
        prepare = PrepareStagingOperator(
            task_id="prepare",
            release=TRIED,
            doc_md="Copies the version to the staging server's repository.",
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
            doc_md="Sends golden requests: the answers must be right, and the same as at the release.",
        )
        unload = TritonUnloadModelOperator(
            task_id="unload",
            model_names=f"{{{{ {PREPARED}['model_names'] | tojson }}}}",
            triton_conn_id=STAGING_CONN_ID,
            doc_md="Unloads it. Always runs.",
        )
        begin >> prepare >> load >> validate >> unload.as_teardown(setups=prepare)
    approve = ApproveReleaseOperator(
        task_id="approve",
        before="promotion",
        trigger_rule="none_failed_min_one_success",
        doc_md="For a version that is newer than the live one: waits for another person's approval.",
    )
    roll_back = RollBackVersionOperator(
        task_id="roll_back",
        doc_md="Moves all traffic to the named version, in four phases.",
    )
    conclude = ConcludeReleaseOperator(
        task_id="conclude",
        wanted="rolled_back",
        doc_md="Closes the record and releases the model's lock.",
    )
    announce = AnnounceReleaseOperator(
        task_id="announce",
        params_name_version=False,
        doc_md="Emits the asset event `rolled-back`, which starts other DAGs, if the record says so. The run's "
        "outcome does not depend on it.",
    )
    admit >> begin
    [begin, validate] >> approve >> roll_back
    [unload, roll_back] >> conclude.as_teardown(setups=admit, on_failure_fail_dagrun=True)
    conclude >> announce.as_teardown(setups=admit)


model_rollback()
