"""The start of one release that nobody has asked for by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from slipway.operators.intake.release_files import require_release_file

if TYPE_CHECKING:
    from airflow.sdk import Context


class StartReleaseOperator(TriggerDagRunOperator):
    """Starts one release, and is tried again while the model's release file is too young.

    Files reach workers, and Airflow's DAG processor, some time after they were written. Until then this worker has no
    file of the model, or Airflow does not offer the model in the form of the DAG and refuses the run. Neither may lose
    the event: give the task retries that last longer than both take.

    :param releases_dir: the folder with the release files.
    """

    def __init__(self, *, releases_dir: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir

    def execute(self, context: Context) -> None:
        """Start it.

        :raises TransientError: this worker has no release file of the model.
        """
        asked = self.conf if isinstance(self.conf, Mapping) else {}
        model = asked.get("model")
        require_release_file(self.releases_dir, model)
        self.log.info(
            "starting it. If Airflow refuses the run because it does not know the model %r, it has not read that "
            "model's release file yet; this is tried again",
            model,
        )
        super().execute(context)
