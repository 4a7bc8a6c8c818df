"""When Airflow counts as ready in the sandbox."""

from __future__ import annotations

import pytest

from include.sandbox.services.airflow import Health


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
