"""The logs of a run's tasks, as Airflow has them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slipway.cli.arguments import ModelArgument
from slipway.cli.failures import CommandError
from slipway.cli.invocation import Invocation, OutputOption, command
from slipway.cli.near_names import did_you_mean
from slipway.cli.output import Format
from slipway.cli.plain import plain
from slipway.workflows import DAG_IDS, MODEL_RELEASE, MODEL_ROLLBACK
from slipway_airflow_api.errors import NotThereError

_SILENT = ("skipped", "removed", "upstream_failed")
_TASKS_MOST = 100


def add_to(app: typer.Typer) -> None:
    """Declare the command."""
    command(
        app,
        "logs",
        "Look",
        examples=(
            "slipway logs digits",
            "slipway logs digits 3 --task rollout.shift_traffic",
            f"slipway logs digits digits-rollback --dag {MODEL_ROLLBACK}",
        ),
    )(logs)


def logs(
    invocation: Invocation,
    model: ModelArgument,
    run: Annotated[
        str,
        typer.Argument(metavar="[VERSION|RUN]", help="A version or a run's ID. Default: the newest release."),
    ] = "",
    task: Annotated[str, typer.Option("--task", help="Only this task, such as staging.validate.")] = "",
    dag: Annotated[str, typer.Option("--dag", help="The run's workflow.")] = MODEL_RELEASE,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print the logs of a release's tasks in the order in which they started."""
    run_id = _run_id(invocation, model, run)
    airflow = invocation.airflow
    try:
        found = airflow.ask(
            airflow.tasks.get_task_instances, dag, run_id, limit=_TASKS_MOST, order_by=["start_date"]
        )
    except NotThereError as error:
        raise CommandError(
            f"there is no run {run_id} of {dag}{_near_workflow(dag)}",
            found=error.found,
            remedy=f"slipway get {model}",
        ) from None
    tasks = [one for one in found.task_instances if one.try_number and task in ("", one.task_id)]
    if task and not tasks:
        names = ", ".join(sorted(one.task_id for one in found.task_instances))
        raise CommandError(
            f"the task {task!r} of {run_id} has not run{_near_task(task, found.task_instances)}",
            expected=names,
            remedy=f"slipway logs {model} {run}",
        )
    documents = []
    for one in tasks:
        state = one.state.value if one.state is not None else "none"
        lines = [] if state in _SILENT else _lines(invocation, dag, run_id, one)
        documents.append({"task": one.task_id, "state": state, "try": one.try_number, "lines": lines})
        if output is Format.TABLE and lines:
            invocation.printer.say(f"── {one.task_id}: {state}")
            invocation.printer.say("\n".join(lines))
    if output is not Format.TABLE:
        invocation.printer.show({"dag_id": dag, "run_id": run_id, "tasks": documents})


def _near_workflow(dag: str) -> str:
    return "" if dag in DAG_IDS else did_you_mean(dag, DAG_IDS)


def _near_task(task: str, known: Any) -> str:
    return did_you_mean(task, sorted({one.task_id for one in known} - {task}))


def _run_id(invocation: Invocation, model: str, run: str) -> str:
    if run and not run.isdecimal():
        return run
    if run:
        return invocation.server.version(model, int(run)).view.line.release_id
    document = invocation.server.model(model)
    if document.open_release is not None:
        return document.open_release.release_id
    if document.last is None:
        raise CommandError(
            f"no version of {model} has been released", remedy=f"slipway release {model} VERSION"
        )
    return document.last.release_id


def _lines(invocation: Invocation, dag: str, run_id: str, task: Any) -> list[str]:
    """Return the lines of a task's newest try."""
    airflow = invocation.airflow
    try:
        answer = airflow.ask(
            airflow.tasks.get_log,
            dag,
            run_id,
            task.task_id,
            task.try_number,
            map_index=task.map_index,
            full_content=True,
            accept="application/json",
        )
    except NotThereError:
        return ["(no log was kept)"]
    content = answer.content.actual_instance
    return [line for entry in content or () if (line := _line(entry))]


def _line(entry: Any) -> str:
    """Return one line of a log; the marks with which Airflow folds groups are left out."""
    if isinstance(entry, str):
        return plain(entry)
    text = plain(str(entry.event))
    if text.startswith(("::group::", "::endgroup::")):
        return ""
    at = f"{entry.timestamp:%H:%M:%S}  " if getattr(entry, "timestamp", None) else ""
    return f"{at}{text}"
