"""
### Keeps a version's files, or lets them be deleted

A pinned version keeps its files whatever `retention` says: `repository_gc` does not delete it. After it is unpinned, it
is treated like any other version. The bucket keeps your name and the reason for both.
"""

from __future__ import annotations

from airflow.sdk import Param, dag

from slipway.dag_header import act_header, model_param, reason_param, releases_dir, version_param
from slipway.operators.operations.pin import PinVersionOperator
from slipway.workflows import VERSION_PIN

PARAMS = {
    "model": model_param(),
    "version": version_param("The version."),
    "action": Param("pin", type="string", enum=["pin", "unpin"], title="Action"),
    "reason": reason_param("The reason. Shown next to the version."),
}


@dag(
    dag_id=VERSION_PIN,
    dag_display_name="Version: pin or unpin",
    description="A pinned version is never deleted by repository_gc.",
    params=PARAMS,
    **act_header(__doc__, "operations"),
)
def version_pin() -> None:
    """One task: the pin, and who set it."""
    PinVersionOperator(
        task_id="pin",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Writes or removes the pin, and records who did it.",
    )


version_pin()
