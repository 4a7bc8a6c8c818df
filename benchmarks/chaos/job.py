"""What a run of the release's DAG is started with. No Airflow in it: who starts the process need not import that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Job:
    """What a run of the DAG is started with, where Airflow would find the release file, and how it reaches its servers.

    The environment is here because the process that all others are forked from keeps that of the first laboratory.
    """

    model: str
    version: int
    bucket: str
    releases_dir: str
    environment: Mapping[str, str]

    def context(self, attempt: int) -> dict[str, Any]:
        """What the tasks ask of Airflow at a try. No other run is ever under way."""
        return {
            "run_id": f"{self.model}-{self.version}",
            "dag": SimpleNamespace(dag_id="model_release"),
            # A person starts each: after a rollback nothing goes on by itself.
            "dag_run": SimpleNamespace(triggering_user_name="chaos"),
            "ti": SimpleNamespace(try_number=attempt, get_dagrun_state=lambda dag_id, run_id: "failed"),
            "params": {"model": self.model, "version": self.version},
        }
