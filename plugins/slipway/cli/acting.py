"""An act is carried out from the command line: what is typed is looked at, then Airflow is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slipway.acts.carry_out import UNDER_WAY, Done
from slipway.acts.carry_out import carry_out as ask_airflow
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.unrecorded import require_landed
from slipway.workflows import MODEL_RELEASE, MODEL_ROLLBACK
from slipway_airflow_api.errors import ConflictError, NotThereError, ServerFailedError
from slipway_core.acts.act import Act
from slipway_core.acts.requests import ActInput, Question, request_of, require_filled_in
from slipway_core.errors import SlipwayError, TransientError, UserError

if TYPE_CHECKING:
    from slipway.cli.invocation import Invocation

ACT_AGE_S = 3.0
"""Older data never refuses an act; it is read again first."""
_ASKING = (MODEL_RELEASE, MODEL_ROLLBACK)
"""The workflows that ask a person about a model: first that of a release, then that of a rollback."""
_MOST_LISTED = 100
_STATUS: tuple[tuple[type[SlipwayError], int], ...] = (
    (NotThereError, 404),
    (ConflictError, 409),
    (ServerFailedError, 500),
)


class CommandAirflow:
    """Airflow's REST API, as who calls the command; nothing of it waits for anything else meanwhile."""

    def __init__(self, invocation: Invocation) -> None:
        self._airflow = invocation.airflow

    async def get(self, *path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read something."""
        return self._airflow.request("GET", path, params=params)

    async def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create something."""
        return self._airflow.request("POST", path, body=body)

    async def patch(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change something."""
        return self._airflow.request("PATCH", path, body=body)

    def status_of(self, error: SlipwayError) -> int:
        """Return the status of the answer that an error stands for; 0: none that anything depends on."""
        return next((status for kind, status in _STATUS if isinstance(error, kind)), 0)


def require_available(invocation: Invocation, act: Act, asked: ActInput) -> None:
    """Ask the read model whether an act makes sense now; rights are Airflow's, and the workflow asks again.

    :raises CommandError: it makes none; the error has the reason and the next command.
    """
    from slipway_core.acts.situation import Refused, Situation

    if asked.model is None:
        return
    document = invocation.server.model_or_empty(asked.model, invocation.clock.now(), most_age_s=ACT_AGE_S)
    now = document.open_release
    found = (
        invocation.server.version(asked.model, now.version, most_age_s=ACT_AGE_S) if now is not None else None
    )
    view = found.view if found is not None else None
    situation = Situation(
        document,
        person=invocation.settings.access.user,
        version=asked.version,
        force=asked.force,
        live=found.live if found is not None else None,
        by_other=bool(view is not None and view.required is not None and view.required.by_other),
    )
    answer = act.possible(situation)
    if isinstance(answer, Refused):
        remedy = answer.next_command
        if "emergency" in act.fields:
            remedy += " (or, if you know better than the records: --emergency)"
        raise CommandError(f"{act.title}: {answer.reason}", remedy=remedy)


def carry_out(invocation: Invocation, act: Act, asked: ActInput) -> Done:
    """Ask Airflow for what an act needs.

    :raises SlipwayError: something is filled in wrongly, it makes no sense now, the person may not, or the server does
        not answer.
    """
    import asyncio

    _require_typed(act, asked)
    try:
        if not asked.emergency:
            require_available(invocation, act, asked)
    except TransientError as error:
        if not act.on_old_data:
            raise
        # What takes users back, or holds something, waits for no document: the workflow asks again, and knows better.
        invocation.warn(f"the current state is unknown ({error.in_short()}); sending the request anyway")
    if act.offered == "landed" and asked.model is not None and asked.version is not None:
        require_landed(invocation, asked.model, asked.version)
    if act.means == "answer":
        asked = replace(asked, question=_question(invocation, asked.model or ""))
    if act.means == "fail_run":
        asked = replace(asked, release_id=_open_run(invocation, asked.model or ""))
    request = request_of(act.name, asked)
    done = asyncio.run(ask_airflow(CommandAirflow(invocation), act, request, model=asked.model))
    if done.became == "under_way":
        raise CommandError(
            f"the run {done.run_id} is already releasing this version",
            remedy=f"slipway get {asked.model} -w",
        )
    if done.became == "answered_before":
        raise CommandError("this already has an answer", remedy=f"slipway get {asked.model}")
    return done


def _require_typed(act: Act, asked: ActInput) -> None:
    """Look at what a person has typed, before a server is asked anything.

    :raises CommandError: it is wrong.
    """
    try:
        require_filled_in(act.name, asked, apart_from=("question", "release_id"))
    except UserError as error:
        raise CommandError(
            error.what,
            code=ExitCode.USAGE,
            expected=error.expected,
            found=error.found,
            remedy=f"slipway {act.verb} --help",
        ) from None


def _question(invocation: Invocation, model: str) -> Question:
    """Return what the model's release waits for.

    Where no document can be read that is new enough, every open question of Airflow's is looked at.
    """
    try:
        release = invocation.server.model(model, most_age_s=ACT_AGE_S).open_release
    except TransientError:
        found = [one for dag_id in _ASKING for one in _questions_of(invocation, dag_id, "~", model)]
    else:
        dag_id = "" if release is None else _ASKING[release.is_rollback]
        found = [] if release is None else _questions_of(invocation, dag_id, release.release_id, model)
    if not found:
        raise CommandError(f"{model} has no open approval", remedy=f"slipway get {model}")
    return found[0]


def _questions_of(invocation: Invocation, dag_id: str, run_id: str, model: str) -> list[Question]:
    """Return the open questions of a run, or with `~` of each run that is about the model."""
    airflow = invocation.airflow
    try:
        answer = airflow.ask(
            airflow.tasks.get_hitl_details, dag_id, run_id, response_received=False, limit=_MOST_LISTED
        )
    except NotThereError:
        return []
    tasks = [detail.task_instance for detail in answer.hitl_details]
    _require_all(len(tasks), answer.total_entries, "open approvals")
    return [
        Question(dag_id, run_id if run_id != "~" else task.dag_run_id, task.task_id, task.map_index)
        for task in tasks
        if run_id != "~" or _is_about(invocation, dag_id, task.dag_run_id, model)
    ]


def _require_all(listed: int, total: int | None, what: str) -> None:
    """Raise where Airflow has listed only a part: what is missing may be what is looked for."""
    if total is None or listed < total:
        raise CommandError(
            f"Airflow has too many {what} to check them all",
            expected=f"at most {listed}",
            found="an unknown number" if total is None else str(total),
            remedy="do it in Airflow, or try again when the object store answers",
        )


def _is_about(invocation: Invocation, dag_id: str, run_id: str, model: str) -> bool:
    airflow = invocation.airflow
    run = airflow.ask(airflow.dag_runs.get_dag_run, dag_id, run_id)
    return (run.conf or {}).get("model") == model


def _open_run(invocation: Invocation, model: str) -> str:
    """Return the run of the model's release that is under way; by Airflow alone where no document can be read."""
    try:
        release = invocation.server.model(model, most_age_s=ACT_AGE_S).open_release
    except TransientError:
        return _only_run(invocation, model)
    if release is None:
        raise CommandError(f"no release of {model} is under way", remedy=f"slipway get {model}")
    return release.release_id


def _only_run(invocation: Invocation, model: str) -> str:
    airflow = invocation.airflow
    answer = airflow.ask(
        airflow.dag_runs.get_dag_runs, MODEL_RELEASE, state=list(UNDER_WAY), limit=_MOST_LISTED
    )
    _require_all(len(answer.dag_runs), answer.total_entries, "releases under way")
    runs = [run.dag_run_id for run in answer.dag_runs if (run.conf or {}).get("model") == model]
    if len(runs) == 1:
        return str(runs[0])
    raise CommandError(
        f"it is unknown which run is releasing {model}",
        expected="one run, or a readable document of the model",
        found=", ".join(runs) or "no run",
        remedy="mark the run as failed in Airflow, or try again when the object store answers",
    )
