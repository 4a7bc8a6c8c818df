"""
### Starts the benchmarks and tunings that release files schedule

Every ten minutes it checks which `benchmark.schedule` or `tuning.schedule` in the release files (a cron expression with
five fields, UTC) is due, and starts `model_benchmark` or `model_tuning` for the live version: once for each time, by a
separate run ID. A time that is more than six hours past is skipped. If no release file has a schedule, it never runs.

An unreadable release file, such as one with a mistyped schedule, stops none of the others, but fails the run.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import dag

from slipway.dag_header import cron, has_schedule, header, releases_dir
from slipway.operators.measuring.due import ListDueRunsOperator, Part
from slipway.workflows import MODEL_BENCHMARK, MODEL_TUNING, SCHEDULED_MEASUREMENTS

FOLDER = releases_dir()


@dag(
    dag_id=SCHEDULED_MEASUREMENTS,
    dag_display_name="Scheduled benchmarks and tunings",
    description="Starts what release files have scheduled for the live version.",
    schedule=cron("SLIPWAY_SCHEDULES_CRON", "*/10 * * * *") if has_schedule(FOLDER) else None,
    max_active_runs=1,
    **header(
        __doc__,
        "operations",
        retries=2,
        retry_delay=timedelta(seconds=10),
        execution_timeout=timedelta(minutes=5),
    ),
)
def scheduled_measurements() -> None:
    """List what is due, and start it."""
    start_due("benchmark", starts=MODEL_BENCHMARK)
    start_due("tuning", starts=MODEL_TUNING)


def start_due(part: Part, starts: str) -> None:
    """Add the two tasks for one section of the release files: what is due, and a run of `starts` for each."""
    due = ListDueRunsOperator(
        task_id=f"list_{part}s",
        releases_dir=str(FOLDER),
        part=part,
        starts=starts,
        doc_md=f"Lists the {part}s that are due and not started.",
    )
    TriggerDagRunOperator.partial(
        task_id=f"start_{part}",
        trigger_dag_id=starts,
        skip_when_already_exists=True,
        map_index_template="{{ task.trigger_run_id }}",
        doc_md=f"Starts one run of `{starts}` for each.",
    ).expand_kwargs(due.output)


scheduled_measurements()
