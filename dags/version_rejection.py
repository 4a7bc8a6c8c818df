"""
### Rejects a version, or lifts its rejection

A **rejected** version is left alone: no event and no sweep starts it, and no person either, `force` or not. A release
of it that is under way raises no further weight, and takes its users back instead. `model_rollback` does not lead back
to it by name. What is live stays live: to bring users back from it, start `model_rollback`.

A release rejects its version automatically if a gate refused it, the judge had it taken back, or a person did. A
release that failed for another reason (a lost lease, a dead task, a stopped run) does not.

`unreject` lifts what was written until then. A version that users have met still needs *Release again* (`force`). Where
the release file asks for two people (`rollout.approval.by_other`), it must be another person than the one who rejected
it. The reason and your name go into the version's record.

A rejection emits an asset event: DAGs that are scheduled on `x-slipway://models/MODEL/rejected` start.
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
    "version": version_param("The version that is meant."),
    "action": Param(
        "reject",
        type="string",
        enum=["reject", "unreject"],
        title="Action",
        description="Reject the version, or lift its rejection.",
    ),
    "reason": reason_param("Why; it goes into the version's record, under your name."),
    "evidence": evidence_param(),
}


@dag(
    dag_id=VERSION_REJECTION,
    dag_display_name="Version: reject or unreject",
    description="Keeps a version from being released, until somebody says why it may be again.",
    params=PARAMS,
    **act_header(__doc__, "operations"),
)
def version_rejection() -> None:
    """An event in the version's record, then one for the DAGs that wait for it."""
    places = {"releases_dir": str(releases_dir()), "bucket": "{{ var.value.slipway_bucket }}"}
    write = RejectVersionOperator(
        task_id="write",
        doc_md="Writes into the version's record who rejects it, or lifts that, and why.",
        **places,
    )
    announce = AnnounceRejectionOperator(
        task_id="announce",
        doc_md="Emits the asset event `rejected` on which other DAGs start; lifting a rejection has none.",
        **places,
    )
    write >> announce


version_rejection()
