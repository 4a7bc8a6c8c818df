"""
### Stops the raises of one model, or of all; allows them again

A **freeze** has an end, a reason and your name. While it lasts, no release starts and no weight is raised. A canary
that is under way stays at its weight, and the judge continues to watch it. **Nothing holds back a rollback**, neither a
freeze nor a closed release window. The release file decides (`rollout.on_hold`) whether a release waits and continues
automatically, or is refused.

| action | what it does |
|---|---|
| freeze | until `until`, for one model or, without a model, for every model |
| thaw | lifts the freezes of that model before their end; without a model, those for every model |
| override | lets one version continue despite the current freezes and closed window |

Another person than the author of the freeze must override it; for a closed window, another person than the one who
started the release. The version's record keeps who, when, why, and what that person saw.
"""

from __future__ import annotations

from airflow.sdk import Param, dag

from slipway.dag_header import (
    OWN_PRIORITY,
    WAY_BACK,
    act_header,
    evidence_param,
    model_or_all_param,
    reason_param,
    releases_dir,
    version_param,
)
from slipway.operators.operations.freeze import FreezeReleasesOperator
from slipway.workflows import RELEASE_FREEZE

PARAMS = {
    "action": Param(
        "freeze",
        type="string",
        enum=["freeze", "thaw", "override"],
        title="Action",
        description="Stop weight increases, allow them again, or let one version continue despite the freeze.",
    ),
    "model": model_or_all_param("every model"),
    "until": Param(
        None,
        type=["null", "string"],
        format="date-time",
        title="Until",
        description="For a freeze: when it ends, at most a year ahead.",
    ),
    "version": version_param("For an override: the version that may continue.", is_needed=False),
    "reason": reason_param("The reason. Shown with your name to everybody whom it holds back."),
    "evidence": evidence_param(),
}


@dag(
    dag_id=RELEASE_FREEZE,
    dag_display_name="Freeze, thaw or override",
    description="No new version gets users until the freeze ends; rollbacks continue.",
    params=PARAMS,
    **act_header(
        __doc__,
        "operations",
        # Before whatever else waits for a worker: a raise may be about to begin.
        weight_rule=OWN_PRIORITY,
        priority_weight=WAY_BACK,
    ),
)
def release_freeze() -> None:
    """One task: an object beside the records, or an event in a version's record."""
    FreezeReleasesOperator(
        task_id="write",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Records the freeze, its end or its override, with the person and the reason.",
    )


release_freeze()
