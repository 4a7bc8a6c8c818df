"""An Airflow that keeps the logs of tasks in the bucket, with Slipway's tasks."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.e2e.running_sandbox import FREEZE_DAG, RunningSandbox

pytestmark = pytest.mark.nightly

TASK = "write"


def test_log_of_a_task_is_read_from_the_bucket(remote_logs: RunningSandbox) -> None:
    """A worker's disk may be gone by then: the page shows the same lines, and names the object."""
    until = datetime.now(UTC) + timedelta(hours=1)
    form = {"action": "freeze", "model": "digits", "reason": "an audit", "until": until.isoformat()}
    run = remote_logs.filled_in(FREEZE_DAG, form)
    prefix = f"airflow-logs/dag_id={FREEZE_DAG}/run_id={run.run_id}/task_id={TASK}/"
    (key,) = remote_logs.wait(lambda: remote_logs.keys(prefix) or None, "the log is in the bucket", 60)
    shutil.rmtree(remote_logs.settings.log_dir / "airflow" / f"dag_id={FREEZE_DAG}")
    shown = remote_logs.airflow.task_log(FREEZE_DAG, run.run_id, TASK)
    assert f"s3://{remote_logs.settings.bucket}/{key}" in shown
    assert "an audit" in shown
    assert remote_logs.settings.secrets.api_secret not in shown
