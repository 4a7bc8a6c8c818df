"""installation_examination: the report is kept, and the run fails where a line has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.examine_installation import ExamineInstallationOperator
from slipway_core.doctor.line import Status
from slipway_core.doctor.report import REPORT_KEY, DoctorReport


def test_the_report_is_kept_before_the_task_fails(
    store: ModelStoreHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no queue and no cluster here; the bucket and its conditions are well."""
    for name in ("KUBERNETES_DEFAULT", "TRITON_STAGING", "SLIPWAY_METRICS"):
        monkeypatch.delenv(f"AIRFLOW_CONN_{name}", raising=False)
    task = ExamineInstallationOperator(task_id="examine", releases_dir=str(tmp_path), bucket=store.bucket)
    context: Any = {"params": {"write": True}}
    with pytest.raises(AirflowFailException, match="there is none"):
        task.execute(context)
    content = store.read(REPORT_KEY)
    assert content is not None
    report = DoctorReport.from_bytes(content, "the report")
    found = {line.what: line.status for line in report.lines}
    assert found["conditions, listings, digests"] is Status.OK
    assert found["connection kubernetes_default"] is Status.FAILED
    assert found["rights"] is Status.FAILED
    assert report.where == "the DAG installation_examination"
