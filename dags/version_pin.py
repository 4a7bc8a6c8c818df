"""
### Keeps a version, or lets it go

A pinned version keeps its files whatever `retention` says: `repository_gc` does not delete it. Unpinned it is treated
as any other version. The reason and your name are kept in the bucket, for both.
"""

from __future__ import annotations

from airflow.sdk import Param, dag

from slipway.dag_header import act_header, model_param, reason_param, releases_dir, version_param
from slipway.operators.operations.pin import PinVersionOperator
from slipway.workflows import VERSION_PIN

PARAMS = {
    "model": model_param(),
    "version": version_param("The version that is meant."),
    "action": Param("pin", type="string", enum=["pin", "unpin"], title="Action"),
    "reason": reason_param("Why. Shown next to the version."),
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
        doc_md="Writes or removes the pin, and keeps who did it.",
    )


version_pin()
