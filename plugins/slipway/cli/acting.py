"""An act is carried out: Airflow is asked for it, as the person who is signed in."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.unrecorded import require_landed
from slipway_airflow_api.errors import ConflictError, NotThereError
from slipway_core.acts.requests import (
    ADMIT_TASK_ID,
    COMMENT,
    STOP_REASON,
    Answer,
    Asked,
    FailRun,
    Question,
    StartRun,
    request_of,
    require_filled_in,
)
from slipway_core.acts.run_names import free_run_id, run_name
from slipway_core.acts.table import ACTS, ActName
from slipway_core.errors import SlipwayError, TransientError, UserError

if TYPE_CHECKING:
    from slipway.cli.desk import Desk

ACT_AGE_S = 3.0
"""By what is older no act is refused: it is read anew."""
_ASKING = ("model_release", "model_rollback")
"""The workflows that ask a person about a model: that of a release, then that of a rollback."""
_NOTE_LIMIT = 1000
_UNDER_WAY = ("queued", "running")
_RUNS_LOOKED_AT = 100
_RACES = 3


@dataclass(frozen=True)
class Done:
    """What Airflow was asked for.

    :param told: a sentence.
    """

    dag_id: str
    run_id: str
    told: str


def require_available(desk: Desk, name: ActName, asked: Asked) -> None:
    """Ask the read model whether an act makes sense now; rights are Airflow's, and the workflow asks again.

    :raises CommandError: it makes none; the error has the reason and the next command.
    """
    from slipway_core.acts.availability import Refused, Situation, availability

    if asked.model is None:
        return
    document = desk.server.model_or_empty(asked.model, desk.clock.now(), most_age_s=ACT_AGE_S)
    now = document.open_release
    found = desk.server.version(asked.model, now.version, most_age_s=ACT_AGE_S) if now is not None else None
    view = found.view if found is not None else None
    situation = Situation(
        document,
        person=desk.settings.access.user,
        version=asked.version,
        force=asked.force,
        live=found.live if found is not None else None,
        by_other=bool(view is not None and view.required is not None and view.required.by_other),
    )
    answer = availability(name, situation)
    if isinstance(answer, Refused):
        remedy = answer.next_command
        if name == "rollback":
            remedy += " (or, if you know better than the records: --emergency)"
        raise CommandError(f"{ACTS[name].title}: {answer.reason}", remedy=remedy)


def carry_out(desk: Desk, name: ActName, asked: Asked) -> Done:
    """Ask Airflow for what an act needs.

    :raises SlipwayError: something is filled in wrongly, it makes no sense now, the person may not, or the server does
        not answer.
    """
    _require_typed(name, asked)
    try:
        if not asked.emergency:
            require_available(desk, name, asked)
    except TransientError as error:
        if not ACTS[name].on_old_data:
            raise
        # What takes users back, or holds something, waits for no document: the workflow asks again, and knows better.
        desk.warn(f"how things stand is not known now ({error.in_short()}); it is asked for all the same")
    if name == "release" and asked.model is not None and asked.version is not None:
        require_landed(desk, asked.model, asked.version)
    if ACTS[name].means == "answer":
        asked = replace(asked, question=_question(desk, asked.model or ""))
    if ACTS[name].means == "fail_run":
        asked = replace(asked, release_id=_open_run(desk, asked.model or ""))
    request = request_of(name, asked)
    if isinstance(request, StartRun):
        return _start(desk, name, request)
    return _fail(desk, request) if isinstance(request, FailRun) else _answer(desk, request)


def _require_typed(name: ActName, asked: Asked) -> None:
    """Look at what a person has typed, before a server is asked anything.

    :raises CommandError: it is wrong.
    """
    try:
        require_filled_in(name, asked, apart_from=("question", "release_id"))
    except UserError as error:
        raise CommandError(
            error.what,
            code=ExitCode.USAGE,
            expected=error.expected,
            found=error.found,
            remedy=f"slipway {name.replace('_', '-')} --help",
        ) from None


def _start(desk: Desk, name: ActName, request: StartRun) -> Done:
    from airflow_client.client import TriggerDAGRunPostBody

    airflow, named = desk.airflow, run_name(request.dag_id, request.conf)
    for _ in range(_RACES):
        run_id = None if named is None else _run_id(desk, name, request.dag_id, named)
        body = TriggerDAGRunPostBody(
            dag_run_id=run_id,
            logical_date=None,
            conf=dict(request.conf),
            note=request.note[:_NOTE_LIMIT] or None,
        )
        try:
            run = airflow.ask(airflow.dag_runs.trigger_dag_run, request.dag_id, body)
        except ConflictError:
            continue  # somebody has taken that name meanwhile
        return Done(
            request.dag_id, run.dag_run_id, f"{ACTS[name].title}: started as the run {run.dag_run_id}."
        )
    raise CommandError(
        f"{ACTS[name].title}: others start the same at this moment",
        expected=f"a name for the run that is free, such as {named}",
        found=f"it was taken {_RACES} times",
        remedy="try again",
    )


def _run_id(desk: Desk, name: ActName, dag_id: str, named: str) -> str:
    """Return a run id that is free.

    :raises CommandError: of a release, one of the same version is under way.
    """
    airflow = desk.airflow
    found = airflow.ask(
        airflow.dag_runs.get_dag_runs,
        dag_id,
        run_id_prefix_pattern=named,
        limit=_RUNS_LOOKED_AT,
        order_by=["-run_after"],
    )
    runs = {run.dag_run_id: run.state.value for run in found.dag_runs}
    same = [run_id for run_id, state in runs.items() if state in _UNDER_WAY and _is_attempt(run_id, named)]
    if name == "release" and same:
        raise CommandError(
            f"this version is being released already, by the run {same[0]}",
            remedy=f"slipway get {named.rpartition('-')[0]} -w",
        )
    return free_run_id(named, runs)


def _is_attempt(run_id: str, named: str) -> bool:
    rest = run_id.removeprefix(named)
    return not rest or (rest[0] == "-" and rest[1:].isalnum())


def _question(desk: Desk, model: str) -> Question:
    """Return what the model's release waits for.

    Where no document can be read that is new enough, every open question of Airflow's is looked at.
    """
    try:
        release = desk.server.model(model, most_age_s=ACT_AGE_S).open_release
    except TransientError:
        found = [one for dag_id in _ASKING for one in _questions_of(desk, dag_id, "~", model)]
    else:
        dag_id = "" if release is None else _ASKING[release.is_rollback]
        found = [] if release is None else _questions_of(desk, dag_id, release.release_id, model)
    if not found:
        raise CommandError(f"nothing of {model} waits for a person", remedy=f"slipway get {model}")
    return found[0]


def _questions_of(desk: Desk, dag_id: str, run_id: str, model: str) -> list[Question]:
    """Return the open questions of a run, or with `~` of each run that is about the model."""
    airflow = desk.airflow
    try:
        answer = airflow.ask(
            airflow.tasks.get_hitl_details, dag_id, run_id, response_received=False, limit=_RUNS_LOOKED_AT
        )
    except NotThereError:
        return []
    tasks = [detail.task_instance for detail in answer.hitl_details]
    return [
        Question(dag_id, run_id if run_id != "~" else task.dag_run_id, task.task_id, task.map_index)
        for task in tasks
        if run_id != "~" or _is_about(desk, dag_id, task.dag_run_id, model)
    ]


def _is_about(desk: Desk, dag_id: str, run_id: str, model: str) -> bool:
    airflow = desk.airflow
    run = airflow.ask(airflow.dag_runs.get_dag_run, dag_id, run_id)
    return (run.conf or {}).get("model") == model


def _open_run(desk: Desk, model: str) -> str:
    """Return the run of the model's release that is under way; by Airflow alone where no document can be read."""
    try:
        release = desk.server.model(model, most_age_s=ACT_AGE_S).open_release
    except TransientError:
        return _only_run(desk, model)
    if release is None:
        raise CommandError(f"no release of {model} is under way", remedy=f"slipway get {model}")
    return release.release_id


def _only_run(desk: Desk, model: str) -> str:
    airflow = desk.airflow
    answer = airflow.ask(
        airflow.dag_runs.get_dag_runs, _ASKING[False], state=list(_UNDER_WAY), limit=_RUNS_LOOKED_AT
    )
    runs = [run.dag_run_id for run in answer.dag_runs if (run.conf or {}).get("model") == model]
    if len(runs) == 1:
        return str(runs[0])
    raise CommandError(
        f"which run releases {model} is not known now",
        expected="one run, or a document of the model that can be read",
        found=", ".join(runs) or "no run",
        remedy="mark the run as failed in Airflow; or try again once the object store answers",
    )


def _fail(desk: Desk, request: FailRun) -> Done:
    from airflow_client.client import DAGRunPatchBody, XComCreateBody
    from airflow_client.client.models.dag_run_mutable_states import DagRunMutableStates

    airflow = desk.airflow
    with suppress(SlipwayError):  # nobody goes on with a bad version for want of a reason
        told = XComCreateBody(key=STOP_REASON, value=request.note[:_NOTE_LIMIT])
        airflow.ask(airflow.xcoms.create_xcom_entry, request.dag_id, ADMIT_TASK_ID, request.run_id, told)
    body = DAGRunPatchBody(state=DagRunMutableStates.FAILED, note=f"Aborted: {request.note}"[:_NOTE_LIMIT])
    airflow.ask(airflow.dag_runs.patch_dag_run, request.dag_id, request.run_id, body)
    done = f"The run {request.run_id} is stopped. Its last tasks take the users back and close the record."
    return Done(request.dag_id, request.run_id, done)


def _answer(desk: Desk, request: Answer) -> Done:
    from airflow_client.client import UpdateHITLDetailPayload

    airflow, asked = desk.airflow, request.question
    body = UpdateHITLDetailPayload(chosen_options=[request.chosen], params_input={COMMENT: request.comment})
    try:
        airflow.ask(
            airflow.tasks.update_hitl_detail, asked.dag_id, asked.run_id, asked.task_id, asked.map_index, body
        )
    except ConflictError:
        raise CommandError(
            "somebody has answered this already", remedy=f"slipway get {asked.run_id.split('-')[0]}"
        ) from None
    return Done(
        asked.dag_id, asked.run_id, f"{request.chosen}: your answer was taken by the run {asked.run_id}."
    )
