"""
### Closes a finding

`model_revalidation` opens a finding if the live version is no longer what was released, and closes it when the
difference is gone. Close a finding by hand if you know about the difference and accept it: give the finding's name as
the model's page shows it, and your reason. Slipway keeps your name and the reason with the finding.

The finding stays closed while the check sees exactly the same. If it sees something else, or the same again after it
was gone, it opens the finding again.
"""

from __future__ import annotations

from airflow.sdk import Param, dag

from slipway.dag_header import act_header, model_param, reason_param, releases_dir
from slipway.operators.revalidation.close_finding import CloseFindingOperator
from slipway.workflows import FINDING_CLOSE

PARAMS = {
    "model": model_param(),
    "finding": Param(
        type="string",
        minLength=3,
        maxLength=100,
        title="Finding",
        description="The finding's name, as the model's page shows it, such as 3-published.",
    ),
    "reason": reason_param("Why this is acceptable; kept with the finding, under your name."),
}


@dag(
    dag_id=FINDING_CLOSE,
    dag_display_name="Finding: close",
    description="Closes a finding of model_revalidation, with a reason.",
    params=PARAMS,
    **act_header(__doc__, "operations"),
)
def finding_close() -> None:
    """One task: the finding, and who closed it."""
    CloseFindingOperator(
        task_id="close",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Records in the finding who closed it, and why.",
    )


finding_close()
