"""Runs pod operators outside of any scheduler, as the task runner and the triggerer run them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator


class TaskInstance(SimpleNamespace):
    """The part of a task instance that the operator uses; keeps what is pushed."""

    def xcom_push(self, key: str, value: Any) -> None:
        """Keeps a value."""
        self.pushed[key] = value


def context_of(operator: KubernetesPodOperator) -> Any:
    """A run's context for one task, outside of any scheduler."""
    instance = TaskInstance(
        dag_id="story",
        task_id=operator.task_id,
        run_id="by hand",
        map_index=-1,
        try_number=1,
        start_date=datetime.now(UTC),
        pushed={},
    )
    return {"ti": instance, "run_id": "by hand", "dag": SimpleNamespace(parent_dag=None)}


async def first_event(trigger: Any) -> dict[str, Any]:
    """What the trigger, run as the triggerer runs it, tells the operator."""
    async for event in trigger.run():
        payload: dict[str, Any] = event.payload
        return payload
    raise AssertionError("the trigger ended without an event")


def run_deferred(operator: KubernetesPodOperator, context: Any) -> Any:
    """Executes a deferrable operator to its end: the trigger is serialized and rebuilt on the way, as in
    Airflow.
    """
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    _, arguments = deferred.value.trigger.serialize()
    trigger = type(deferred.value.trigger)(**arguments)
    event = asyncio.run(asyncio.wait_for(first_event(trigger), 60))
    return getattr(operator, deferred.value.method_name)(context, event)
