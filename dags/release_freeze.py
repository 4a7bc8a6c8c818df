"""
### Stops the raises of a model, or of all; lets them go on

A **freeze** has an end, a reason and your name. While it lasts, no release begins and no weight is raised: a canary
under way stays at its weight and goes on being watched and judged. **A rollback is never held back**, neither by a
freeze nor by a closed release window. What the release file says of it (`rollout.on_hold`): the release waits and goes
on by itself, or is refused.

| action | what it does |
|---|---|
| freeze | until `until`, for one model or, without a model, for every one |
| thaw | lifts the freezes of that model before their end; without a model, those for every model |
| override | lets one version go on all the same, past the freezes and the closed window of this moment |

An override needs another person than the one who wrote the freeze; past a closed window, another than who started the
release. The version's record keeps who, when, why, and what was in front of that person.
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
    "reason": reason_param("Why. Shown with your name to everybody it holds."),
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
        doc_md="Writes the freeze, or what lifts or overrides it, with who asked for it and why.",
    )


release_freeze()
