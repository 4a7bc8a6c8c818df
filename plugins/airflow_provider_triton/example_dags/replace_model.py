"""
### Replace a model on a Triton server with another

An example to copy, built from the Triton operators. It loads the new model, warms it up and sends it a request. If the
answer is the expected one, it drains the old model, which is unloaded when it no longer receives requests. If anything
fails, the new model is unloaded. The old model has served all the time.

Send your users to the new model when `check` has passed; `drain_old` waits for that.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from airflow.sdk import Param, TriggerRule, dag, task

from airflow_provider_triton.operators import (
    TritonDrainModelOperator,
    TritonInferOperator,
    TritonLoadModelOperator,
    TritonUnloadModelOperator,
    TritonWaitReadyOperator,
    TritonWarmUpOperator,
)

PARAMS = {
    "server": Param(
        "triton_default", type="string", title="Server", description="A connection of the type triton."
    ),
    "new_model": Param(
        type="string", minLength=1, title="New model", description="In the server's repository."
    ),
    "config": Param(
        {},
        type="object",
        title="Configuration",
        description="The new model's complete configuration; `version_policy.specific` selects the versions.",
    ),
    "inputs": Param(
        {},
        type="object",
        title="Request",
        description="One or more rows for each input, as nested lists by input name.",
    ),
    "expected": Param(
        {},
        type="object",
        title="Expected answer",
        description="The expected answer, as nested lists by output name.",
    ),
    "old_model": Param(
        "", type="string", title="Old model", description="Empty if there is no model to replace yet."
    ),
}

SERVER = "{{ params.server }}"
NEW = "{{ params.new_model }}"


@dag(
    dag_id="replace_model",
    description="Loads a model, tests it, and drains the model that it replaces.",
    schedule=None,
    params=PARAMS,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
    tags=["example", "triton"],
)
def replace_model() -> None:
    """Wire the tasks."""
    wait = TritonWaitReadyOperator(
        task_id="wait_server", triton_conn_id=SERVER, timeout_s=300, deferrable=True
    )
    load = TritonLoadModelOperator(
        task_id="load_new",
        model_name=NEW,
        config="{{ params.config | tojson }}",
        triton_conn_id=SERVER,
        timeout_s=300,
        deferrable=True,
    )
    warm_up = TritonWarmUpOperator(
        task_id="warm_up", model_name=NEW, inputs="{{ params.inputs | tojson }}", triton_conn_id=SERVER
    )
    ask = TritonInferOperator(
        task_id="ask", model_name=NEW, inputs="{{ params.inputs | tojson }}", triton_conn_id=SERVER
    )

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def has_old(params: dict[str, Any]) -> bool:
        """Go on where there is a model to drain."""
        return bool(params["old_model"])

    drain = TritonDrainModelOperator(
        task_id="drain_old",
        model_name="{{ params.old_model }}",
        triton_conn_id=SERVER,
        quiet_s=2,
        timeout_s=900,
        deferrable=True,
    )
    # One that another task's failure has set off; the old model is not touched then.
    unload = TritonUnloadModelOperator(
        task_id="unload_new",
        model_names="{{ [params.new_model] | tojson }}",
        triton_conn_id=SERVER,
        trigger_rule=TriggerRule.ONE_FAILED,
    )
    checked = check(ask.output)
    wait >> load >> warm_up >> ask >> checked >> has_old() >> drain
    [load, warm_up, ask, checked] >> unload


@task(retries=0)
def check(answer: dict[str, Any], params: dict[str, Any]) -> None:
    """Hold the answer against the expected one."""
    for name, expected in params["expected"].items():
        found, wanted = list(_flat(answer[name])), list(_flat(expected))
        if len(found) != len(wanted) or not all(map(_is_close, found, wanted)):
            raise ValueError(f"the output {name!r} is {found}, and should be {wanted}")


def _is_close(found: float, wanted: float) -> bool:
    return math.isclose(found, wanted, rel_tol=1e-3, abs_tol=1e-6)


def _flat(values: Any) -> Any:
    if isinstance(values, list):
        for one in values:
            yield from _flat(one)
    else:
        yield values


replace_model()
