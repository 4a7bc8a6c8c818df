"""
### Closes a finding

`model_revalidation` opens a finding where what is live is not what was released any more, and closes it when it finds
it gone. Close one by hand where you know of it and leave it so: name it as the page does, and say why. Your name and
the reason are kept with it.

It stays closed while exactly the same is seen. Where something else is seen, or the same again after it was gone, it
opens anew.
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
        description="Its name, as the page of the model shows it, such as 3-published.",
    ),
    "reason": reason_param("Why it may stay so; it is kept with the finding, under your name."),
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
        doc_md="Writes into the finding who closed it, and why.",
    )


finding_close()
