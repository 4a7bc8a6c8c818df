"""When Airflow counts as ready in the sandbox."""

from __future__ import annotations

import pytest

from slipway_sandbox.host.images import PROJECT_ROOT
from slipway_sandbox.services.airflow import Health, count_dag_files


@pytest.mark.parametrize(
    ("health", "is_ready"),
    [
        (Health((), dags=8, import_errors=0, files=8), True),
        (Health((), dags=7, import_errors=1, files=8), True),
        (Health((), dags=1, import_errors=0, files=8), False),
        (Health(("scheduler",), dags=8, import_errors=0, files=8), False),
    ],
)
def test_airflow_is_ready_when_every_workflow_was_read(health: Health, is_ready: bool) -> None:
    """One workflow of several is not enough, a file that cannot be read counts, and all components must live."""
    assert health.has_read_all is is_ready


def test_a_file_without_a_dag_is_not_waited_for() -> None:
    """Of the project's files the one that only checks the settings makes no DAG; each of the others makes one."""
    folder = PROJECT_ROOT / "dags"
    files = {path.name for path in folder.glob("*.py")}
    assert "slipway_settings.py" in files
    assert count_dag_files(folder) == len(files) - 1
