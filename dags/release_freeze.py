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

from datetime import timedelta

from airflow.sdk import Param, dag
from slipway.dag_header import OWN_PRIORITY, WAY_BACK, header, releases_dir
from slipway.operators.operations.freeze import FreezeReleasesOperator

from include.model_release.identifiers import list_models

PARAMS = {
    "action": Param(
        "freeze",
        type="string",
        enum=["freeze", "thaw", "override"],
        title="Action",
        description="Stop the raises, let them go on, or let one version go on all the same.",
    ),
    "model": Param(
        None,
        type=["null", "string"],
        enum=[None, *list_models(releases_dir())],
        title="Model",
        description="Empty: every model.",
    ),
    "until": Param(
        None,
        type=["null", "string"],
        format="date-time",
        title="Until",
        description="Of a freeze: when it ends by itself, at most a year ahead.",
    ),
    "version": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Version",
        description="Of an override: the version that goes on.",
    ),
    "reason": Param(
        type="string",
        minLength=3,
        maxLength=500,
        title="Reason",
        description="Why; whoever is held reads it, under your name.",
    ),
    "evidence": Param(
        None,
        type=["null", "string"],
        maxLength=1000,
        title="Evidence",
        description="The page that you have looked at: its address or key in the bucket. Its digest is kept.",
    ),
}


@dag(
    dag_id="release_freeze",
    dag_display_name="Freeze: stop or go on",
    description="Nobody gets a new version until the freeze ends; rollbacks go on.",
    schedule=None,
    params=PARAMS,
    **header(
        __doc__,
        "operations",
        # Before whatever else waits for a worker: a raise may be about to begin.
        weight_rule=OWN_PRIORITY,
        priority_weight=WAY_BACK,
        retries=3,
        retry_delay=timedelta(seconds=5),
        execution_timeout=timedelta(minutes=5),
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
