"""An act is carried out: Airflow is asked for it, once, as the person who is signed in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slipway.web.acts.airflow_api import AirflowApi, AirflowRefusedError
from slipway_core.acts.requests import (
    ADMIT_TASK_ID,
    COMMENT,
    STOP_REASON,
    Answer,
    FailRun,
    Request,
    StartRun,
)
from slipway_core.acts.run_names import free_run_id, run_name
from slipway_core.acts.table import ACTS, ActName

_UNDER_WAY = ("queued", "running")
_RUNS_LOOKED_AT = 100
_NOTE_LIMIT = 1000


@dataclass(frozen=True)
class Done:
    """What Airflow was asked for.

    :param told: a sentence.
    :param is_new: False: the same form was sent before, and nothing was done again.
    """

    dag_id: str
    run_id: str
    told: str
    is_new: bool = True


async def carry_out(
    api: AirflowApi, name: ActName, request: Request, *, model: str | None, nonce: str
) -> Done:
    """Ask Airflow for what an act needs.

    :param model: of a run that shall be marked as failed, the model that it must be about.
    :param nonce: names the run, so that a form that is sent twice starts one.
    :raises AirflowRefusedError: the person may not, or it makes no sense any more.
    """
    if isinstance(request, StartRun):
        return await _start(api, name, request, nonce)
    if isinstance(request, FailRun):
        return await _fail(api, request, model)
    return await _answer(api, request)


async def _start(api: AirflowApi, name: ActName, request: StartRun, nonce: str) -> Done:
    named = run_name(request.dag_id, request.conf) or f"{name}-{nonce}"
    if name == "release":
        run_id, waiting = await _release_run_id(api, request.dag_id, named)
        if waiting:
            return Done(
                request.dag_id, run_id, f"It is under way already, as the run {run_id}.", is_new=False
            )
    else:
        run_id = named if named.endswith(nonce) else f"{named}-{nonce}"
    body = {
        "dag_run_id": run_id,
        "logical_date": None,
        "conf": dict(request.conf),
        "note": request.note[:_NOTE_LIMIT] or None,
    }
    if not await _create_run(api, request.dag_id, body):
        return Done(request.dag_id, run_id, f"It was asked for already, as the run {run_id}.", is_new=False)
    return Done(request.dag_id, run_id, f"{ACTS[name].title}: started as the run {run_id}.")


async def _create_run(api: AirflowApi, dag_id: str, body: Mapping[str, Any]) -> bool:
    """Return whether the run is new; it is not where it was asked for before.

    Of two requests at once Airflow may answer one with an error of its database, before or after it has written the
    other. So it is asked once more: the run's name lets it start only once.
    """
    for is_last in (False, True):
        try:
            await api.post("dags", dag_id, "dagRuns", body=body)
        except AirflowRefusedError as error:
            if error.status == 409:
                return False
            if error.status < 500 or is_last:
                raise
        else:
            break
    return True


async def _release_run_id(api: AirflowApi, dag_id: str, named: str) -> tuple[str, bool]:
    """Return the run id of the next release of a version, or that of its release under way, and whether it is that."""
    answer = await api.get(
        "dags",
        dag_id,
        "dagRuns",
        params={"run_id_prefix_pattern": named, "limit": _RUNS_LOOKED_AT, "order_by": "-run_after"},
    )
    own = re.compile(re.escape(named) + r"(-[0-9a-f]+)?")
    runs = {
        str(run.get("dag_run_id")): str(run.get("state"))
        for run in answer.get("dag_runs", ())
        if own.fullmatch(str(run.get("dag_run_id")))
    }
    waiting = next((run_id for run_id, state in runs.items() if state in _UNDER_WAY), None)
    return (free_run_id(named, runs), False) if waiting is None else (waiting, True)


async def _fail(api: AirflowApi, request: FailRun, model: str | None) -> Done:
    run = await api.get("dags", request.dag_id, "dagRuns", request.run_id)
    if (run.get("conf") or {}).get("model") != model:
        raise AirflowRefusedError(404, f"The run {request.run_id} is no release of {model}")
    if run.get("state") not in _UNDER_WAY:
        raise AirflowRefusedError(409, f"The run {request.run_id} is over: it is {run.get('state')}")
    with suppress(AirflowRefusedError):  # nobody goes on with a bad version for want of a reason
        told = {"key": STOP_REASON, "value": request.note[:_NOTE_LIMIT]}
        path = (
            "dags",
            request.dag_id,
            "dagRuns",
            request.run_id,
            "taskInstances",
            ADMIT_TASK_ID,
            "xcomEntries",
        )
        await api.post(*path, body=told)
    body = {"state": "failed", "note": f"Aborted: {request.note}"[:_NOTE_LIMIT]}
    await api.patch("dags", request.dag_id, "dagRuns", request.run_id, body=body)
    done = f"The run {request.run_id} is stopped. Its last tasks take the users back and close the record."
    return Done(request.dag_id, request.run_id, done)


async def _answer(api: AirflowApi, request: Answer) -> Done:
    asked = request.question
    path = (
        "dags",
        asked.dag_id,
        "dagRuns",
        asked.run_id,
        "taskInstances",
        asked.task_id,
        str(asked.map_index),
    )
    body = {"chosen_options": [request.chosen], "params_input": {COMMENT: request.comment}}
    try:
        await api.patch(*path, "hitlDetails", body=body)
    except AirflowRefusedError as error:
        if error.status != 409:
            raise
        return Done(asked.dag_id, asked.run_id, "Somebody has answered this already.", is_new=False)
    return Done(
        asked.dag_id, asked.run_id, f"{request.chosen}: your answer was taken by the run {asked.run_id}."
    )
