"""An act is carried out: Airflow is asked for it, once, as the person who acts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from slipway.acts.airflow import Airflow
from slipway.acts.run_list import runs_of
from slipway.workflows import ADMIT_TASK, STOP_REASON, dag_id_of
from slipway_core.acts.act import Act
from slipway_core.acts.requests import COMMENT, Answer, FailRun, Request, StartRun
from slipway_core.acts.run_names import free_run_id, is_about, run_name
from slipway_core.errors import SlipwayError, UserError

UNDER_WAY = ("queued", "running")
_NOTE_LIMIT = 1000
_ATTEMPTS = 3


class OtherRunError(UserError):
    """The run that shall end is one of another model."""


class RunOverError(UserError):
    """The run that shall end has ended."""


class NameTakenError(UserError):
    """Others start the same at this moment, so that no name for the run is free."""


@dataclass(frozen=True)
class Done:
    """What Airflow was asked for.

    :param message: what came of it, in a sentence.
    :param became: what came of it: it was done; or nothing was, because a run about the same is under way, the same was
        asked for before, or somebody has answered the question.
    """

    dag_id: str
    run_id: str
    message: str
    became: Literal["done", "under_way", "asked_before", "answered_before"] = "done"

    @property
    def is_new(self) -> bool:
        """Whether something was done."""
        return self.became == "done"


async def carry_out(
    airflow: Airflow, act: Act, request: Request, *, model: str | None, nonce: str = ""
) -> Done:
    """Ask Airflow for what an act needs.

    :param model: of a run that shall be marked as failed, the model that it must be about.
    :param nonce: is put into the run's name, so that a form that is sent twice starts one; "": the next free name is
        taken. The run of an act that goes on one at a time has the next free name in any case.
    :raises OtherRunError: the run that shall end is no release of the model.
    :raises RunOverError: it has ended.
    :raises NameTakenError: others start the same at this moment.
    :raises UnusableAnswerError: Airflow's list of runs lacks a part.
    :raises TooManyRunsError: Airflow lists more runs than are read.
    :raises SlipwayError: the client's: the person may not, it makes no sense any more, or Airflow does not answer.
    """
    if isinstance(request, StartRun):
        return await _start(airflow, act, request, nonce)
    if isinstance(request, FailRun):
        return await _fail(airflow, request, model)
    return await _answer(airflow, request)


async def _start(airflow: Airflow, act: Act, request: StartRun, nonce: str) -> Done:
    dag_id, named = dag_id_of(request.workflow), run_name(request.workflow, request.conf)
    for _ in range(_ATTEMPTS):
        if nonce and not act.one_at_a_time:
            run_id: str | None = f"{named or act.name}-{nonce}"
        elif named is None:
            run_id = f"{act.name}-{nonce}" if nonce else None
        else:
            other = await _under_way(airflow, request.workflow, named) if act.one_at_a_time else None
            if other is not None:
                return Done(dag_id, other, f"The run {other} is already under way.", "under_way")
            run_id = await _free_run_id(airflow, dag_id, named)
        created = await _create_run(airflow, dag_id, run_id, request)
        if created.run_id:
            return Done(dag_id, created.run_id, f"{act.title}: started as the run {created.run_id}.")
        if run_id is not None and (nonce or created.was_asked_twice):
            return Done(dag_id, run_id, f"It was already requested, as the run {run_id}.", "asked_before")
    raise NameTakenError(
        f"{act.title}: others are starting the same at this moment",
        expected=f"an unused run name, such as {named}",
        found=f"the name was taken {_ATTEMPTS} times",
        remedy="try again",
    )


@dataclass(frozen=True)
class _Created:
    """A run that was asked for.

    :param run_id: "": there was one of that name.
    :param was_asked_twice: Airflow failed at the first request, which may have written the run nevertheless.
    """

    run_id: str
    was_asked_twice: bool = False


async def _create_run(airflow: Airflow, dag_id: str, run_id: str | None, request: StartRun) -> _Created:
    """Ask for a run.

    Of two requests at once Airflow may answer one with an error of its database, before or after it has written the
    other. So it is asked once more: the run's name lets it start only once. A run without one is asked for once.
    """
    body = {
        "dag_run_id": run_id,
        "logical_date": None,
        "conf": dict(request.conf),
        "note": request.note[:_NOTE_LIMIT] or None,
    }
    was_asked_twice = False
    while True:
        try:
            run = await airflow.post("dags", dag_id, "dagRuns", body=body)
        except SlipwayError as error:
            status = airflow.status_of(error)
            if status == HTTPStatus.CONFLICT:
                return _Created("", was_asked_twice)
            if status < HTTPStatus.INTERNAL_SERVER_ERROR or was_asked_twice or run_id is None:
                raise
            was_asked_twice = True
        else:
            return _Created(str(run.get("dag_run_id") or run_id), was_asked_twice)


async def _under_way(airflow: Airflow, workflow: str, named: str) -> str | None:
    """Return the run under way that is about what runs of that name are about; None: there is none."""
    for run in await runs_of(airflow, dag_id_of(workflow), state=list(UNDER_WAY)):
        run_id = str(run.get("dag_run_id"))
        if run.get("state") in UNDER_WAY and is_about(workflow, run_id, run.get("conf"), named):
            return run_id
    return None


async def _free_run_id(airflow: Airflow, dag_id: str, named: str) -> str:
    runs = await runs_of(airflow, dag_id, run_id_prefix_pattern=named)
    return free_run_id(named, {str(run.get("dag_run_id")) for run in runs})


async def _fail(airflow: Airflow, request: FailRun, model: str | None) -> Done:
    dag_id, run_id = dag_id_of(request.workflow), request.run_id
    run = await airflow.get("dags", dag_id, "dagRuns", run_id)
    if (run.get("conf") or {}).get("model") != model:
        raise OtherRunError(f"The run {run_id} is not a release of {model}")
    if run.get("state") not in UNDER_WAY:
        raise RunOverError(f"The run {run_id} is over: its state is {run.get('state')}")
    path = ("dags", dag_id, "dagRuns", run_id)
    with suppress(SlipwayError):  # nobody goes on with a bad version for want of a reason
        reason = {"key": STOP_REASON, "value": request.note[:_NOTE_LIMIT]}
        await airflow.post(*path, "taskInstances", ADMIT_TASK, "xcomEntries", body=reason)
    body = {"state": "failed", "note": f"Aborted: {request.note}"[:_NOTE_LIMIT]}
    await airflow.patch(*path, body=body)
    done = f"The run {run_id} is stopped. Its last tasks roll back and close the record."
    return Done(dag_id, run_id, done)


async def _answer(airflow: Airflow, request: Answer) -> Done:
    asked = request.question
    path = ("dags", asked.dag_id, "dagRuns", asked.run_id, "taskInstances", asked.task_id)
    body = {"chosen_options": [request.chosen], "params_input": {COMMENT: request.comment}}
    try:
        await airflow.patch(*path, str(asked.map_index), "hitlDetails", body=body)
    except SlipwayError as error:
        if airflow.status_of(error) != HTTPStatus.CONFLICT:
            raise
        return Done(asked.dag_id, asked.run_id, "This already has an answer.", "answered_before")
    return Done(asked.dag_id, asked.run_id, f"The run {asked.run_id} has your answer: {request.chosen}.")
