"""
### Rejects a version, or lifts its rejection

A **rejected** version cannot be released: no event, no scan and no person can start it, not even with `force`. If its
release is under way, the release raises no further weight and rolls its users back. `model_rollback` does not go back
to it by name. A live version stays live: to bring users back from it, start `model_rollback`.

A release rejects its version automatically if a gate refused it, the judge rolled it back, or a person did. A release
that failed for another reason (a lost lease, a dead task, a stopped run) does not.

`unreject` lifts all earlier rejections. A version that users have met still needs *Release again* (`force`). If the
release file requires two people (`rollout.approval.by_other`), the person who lifts the rejection must not be the one
who rejected. The reason and your name go into the version's record.

A rejection emits an asset event, which starts DAGs that are scheduled on `x-slipway://models/MODEL/rejected`.
"""

from __future__ import annotations

from airflow.sdk import Param, dag

from slipway.dag_header import (
    act_header,
    evidence_param,
    model_param,
    reason_param,
    releases_dir,
    version_param,
)
from slipway.operators.operations.announce import AnnounceRejectionOperator
from slipway.operators.operations.rejection import RejectVersionOperator
from slipway.workflows import VERSION_REJECTION

PARAMS = {
    "model": model_param(),
    "version": version_param("The version."),
    "action": Param(
        "reject",
        type="string",
        enum=["reject", "unreject"],
        title="Action",
        description="Reject the version, or lift its rejection.",
    ),
    "reason": reason_param("The reason; it goes into the version's record, under your name."),
    "evidence": evidence_param(),
}


@dag(
    dag_id=VERSION_REJECTION,
    dag_display_name="Version: reject or unreject",
    description="Blocks a version from being released, until somebody lifts that with a reason.",
    params=PARAMS,
    **act_header(__doc__, "operations"),
)
def version_rejection() -> None:
    """An event in the version's record, then one for the DAGs that wait for it."""
    places = {"releases_dir": str(releases_dir()), "bucket": "{{ var.value.slipway_bucket }}"}
    write = RejectVersionOperator(
        task_id="write",
        doc_md="Records in the version's record who rejects it, or lifts that, and why.",
        **places,
    )
    announce = AnnounceRejectionOperator(
        task_id="announce",
        doc_md="Emits the asset event `rejected`, which starts other DAGs; lifting a rejection emits none.",
        **places,
    )
    write >> announce


version_rejection()
