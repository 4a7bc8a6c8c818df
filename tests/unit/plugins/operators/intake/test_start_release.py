"""StartReleaseOperator: an event's start is not lost to a release file that is too young."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import DagRunTriggerException

from slipway.operators.intake.start import StartReleaseOperator
from slipway_core.errors import TransientError


def _start(folder: Path) -> None:
    operator = StartReleaseOperator(
        task_id="start",
        trigger_dag_id="model_release",
        trigger_run_id="digits-2-0a1b2c3d",
        conf={"model": "digits", "version": 2},
        releases_dir=str(folder),
        skip_when_already_exists=True,
    )
    context: Any = {"ti": None}
    operator.execute(context)


def test_a_missing_release_file_is_waited_for(tmp_path: Path) -> None:
    """The try fails with a reason that names the file; once that is there, the run is started."""
    with pytest.raises(TransientError, match=r"digits\.yaml"):
        _start(tmp_path)
    (tmp_path / "digits.yaml").touch()
    with pytest.raises(DagRunTriggerException) as caught:
        _start(tmp_path)
    assert caught.value.dag_run_id == "digits-2-0a1b2c3d"
    assert caught.value.conf == {"model": "digits", "version": 2}
