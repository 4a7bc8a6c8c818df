"""ShowCandidateOperator's stage in the record: a candidate that does not come up is refused, before any user."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.preview import ShowCandidateOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway.traffic.live_service import LiveService
from slipway.traffic.raise_permit import RaisePermit
from slipway_core.errors import CanaryRefusedError
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.spec.release_file import parse_release_spec


def test_candidate_that_does_not_come_up_is_refused(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage ends as refused, with the reason; no weight above 0 was ever intended."""
    release_run = ReleaseRun(
        release_id="table-2",
        model="table",
        version=2,
        bucket=store.bucket,
        spec=parse_release_spec(
            "model: table\nsource: {format: onnx}\nrollout: {preview: {}}\n", "table.yaml"
        ),
        stable=StableVersion(version=1, storage_uri=f"s3://{store.bucket}/models/table/1/repository"),
    )
    record = ReleaseRecord(store, "table", 2, release_run.release_id)
    record.append(ReleaseStarted())

    def reach(*_: Any, **__: Any) -> NoReturn:
        raise CanaryRefusedError(
            "the candidate does not come up", found="the container ends with exit code 1"
        )

    monkeypatch.setattr(LiveService, "reach", reach)
    monkeypatch.setattr(RaisePermit, "require", lambda self, weight: None)
    operator = ShowCandidateOperator(task_id="show", release=release_run.model_dump_json())
    with pytest.raises(AirflowFailException, match="exit code 1"):
        operator.execute({})
    state = record.state()
    (stage,) = state.stages
    assert (stage.name, stage.outcome, state.refused_by) == ("preview", "refused", "preview")
    assert "exit code 1" in (stage.reason or "")
    assert state.intended_weight == 0
