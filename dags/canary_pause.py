"""
### Pauses a canary at its weight, or lets it go on

The candidate keeps the share that it has; no step is begun, nothing is promoted, and the bake's limit does not run
out. The judge goes on watching: a candidate that does worse is still taken back at once.

The task says "paused at 20 %" when that holds: once the release has renewed its lease with the pause in it, which takes
some ten seconds, and up to a minute between two steps. A promotion that meets the pause waits for the resume. A freeze
or a closed release window holds back no pause. A resume raises nothing past them, and says so. Where the
canary was over before, the task fails and says what happened, such as "too late: the version was promoted".
"""

from __future__ import annotations

from airflow.sdk import Param, dag

from slipway.dag_header import OWN_PRIORITY, WAY_BACK, act_header, model_param, reason_param, releases_dir
from slipway.operators.pause import PauseCanaryOperator
from slipway.workflows import CANARY_PAUSE

PARAMS = {
    "model": model_param(),
    "action": Param("pause", type="string", enum=["pause", "resume"], title="Action"),
    "reason": reason_param("Why; the watch tells it in its log.", default="a person wants to look"),
}


@dag(
    dag_id=CANARY_PAUSE,
    dag_display_name="Canary: pause or resume",
    description="Keeps a canary at its weight until a person has looked.",
    params=PARAMS,
    **act_header(
        __doc__,
        "release",
        # Before whatever else waits for a worker, as the way back in model_release.
        weight_rule=OWN_PRIORITY,
        priority_weight=WAY_BACK,
    ),
)
def canary_pause() -> None:
    """One task: a note on the canary's lease, and the release's answer to it."""
    PauseCanaryOperator(
        task_id="pause",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Notes on the lease that the canary must keep its weight, and waits until it does, or no longer has to.",
    )


canary_pause()
