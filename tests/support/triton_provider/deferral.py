"""A deferred task, carried on as the triggerer and the scheduler do."""

from __future__ import annotations

import json
import pkgutil
from typing import Any

from airflow.sdk.exceptions import TaskDeferred


async def only_event(deferred: TaskDeferred) -> dict[str, Any]:
    """Run the deferred task's trigger, made anew from its serialised form; return its one event's payload."""
    path, arguments = deferred.trigger.serialize()
    trigger = pkgutil.resolve_name(path)(**json.loads(json.dumps(arguments)))
    events = [event async for event in trigger.run()]
    assert len(events) == 1
    payload: dict[str, Any] = json.loads(json.dumps(events[0].payload))
    return payload


async def carried_out(operator: Any) -> Any:
    """Run a task to its end, through the triggerer where it defers itself; return what it returns."""
    try:
        return operator.execute({})
    except TaskDeferred as deferred:
        return getattr(operator, deferred.method_name)({}, await only_event(deferred))
