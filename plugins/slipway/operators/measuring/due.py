"""Which benchmarks and tunings the release files have scheduled for now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRuntimeError

from slipway.airflow_run import is_missing_run
from slipway.failures import PlainFailure
from slipway_core.errors import SlipwayError
from slipway_core.identifiers import list_models
from slipway_core.spec.release_file import ReleaseSpec, load_model_spec
from slipway_core.spec.schedules.cron import due_time

if TYPE_CHECKING:
    from airflow.sdk import Context

Part = Literal["benchmark", "tuning"]


class ListDueRunsOperator(BaseOperator):
    """Lists the runs that are due and not started: one for each model and time, always under the same run id.

    A release file that cannot be read stops none of the others; where it does not let the task fail, because others are
    due, it does so the next time.

    :param releases_dir: the folder with the release files.
    :param part: the part of the release file that has the `schedule`.
    :param starts: the DAG that is started.
    :returns: one mapping a run, as `TriggerDagRunOperator.expand_kwargs` takes it.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, releases_dir: str, part: Part, starts: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir
        self.part = part
        self.starts = starts

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Ask each release file.

        :raises PlainFailure: one cannot be read, and nothing is due.
        """
        now, folder = datetime.now(UTC), Path(self.releases_dir)
        due, unread = list[dict[str, Any]](), list[str]()
        for model in list_models(folder):
            try:
                run_id = self._due_run(load_model_spec(folder, model), now)
            except SlipwayError as error:
                self.log.warning("it is unknown whether something of %s is due: %s", model, error)
                unread.append(str(error))
                continue
            if run_id is not None and not self._is_started(context, run_id):
                due.append({"trigger_run_id": run_id, "conf": {"model": model}})
        if unread and not due:
            raise PlainFailure("; ".join(unread))
        return due

    def _due_run(self, spec: ReleaseSpec, now: datetime) -> str | None:
        schedule = spec.benchmark.schedule if self.part == "benchmark" else spec.tuning.schedule
        time = None if schedule is None else due_time(schedule, now)
        return None if time is None else f"scheduled-{spec.model}-{time:%Y%m%dT%H%M}"

    def _is_started(self, context: Context, run_id: str) -> bool:
        try:
            return context["ti"].get_dagrun_state(self.starts, run_id) is not None
        except AirflowRuntimeError as error:
            if is_missing_run(error):
                return False
            raise
