"""
### Pauses a canary at its weight, or resumes it

While a canary is paused, the candidate keeps its share: no step starts, nothing is promoted, and the bake's limit does
not run out. The judge continues to watch. A candidate that does worse is still rolled back at once.

The task says "paused at 20 %" once the pause is in effect: when the release has renewed its lease with the pause in it.
That takes about ten seconds, and up to a minute between two steps. A promotion that meets a pause waits for the resume.
Freezes and closed release windows do not prevent a pause. A resume does not raise the weight past them, and says so. If
the canary was already over, the task fails and says what happened, such as "too late: the version was promoted".
"""

from __future__ import annotations

from airflow.sdk import Param, dag

from slipway.dag_header import OWN_PRIORITY, WAY_BACK, act_header, model_param, reason_param, releases_dir
from slipway.operators.pause import PauseCanaryOperator
from slipway.workflows import CANARY_PAUSE

PARAMS = {
    "model": model_param(),
    "action": Param("pause", type="string", enum=["pause", "resume"], title="Action"),
    "reason": reason_param("The reason; the watch writes it to its log.", default="a person wants to look"),
}


@dag(
    dag_id=CANARY_PAUSE,
    dag_display_name="Canary: pause or resume",
    description="Keeps a canary at its weight while a person takes a look.",
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
        doc_md="Writes the pause into the canary's lease, and waits until the canary keeps its weight or no longer "
        "needs to.",
    )


canary_pause()
