"""A canary of a model that is asked over streams, where nobody could read its answers."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import ShiftTrafficOperator
from slipway.release_run import ReleaseRun
from slipway_core.errors import StreamsUnreadError
from tests.support.canary.doubles import ServiceDouble
from tests.support.canary.operators import state
from tests.support.canary.streamed_versions import with_streaming
from tests.support.release.admission import cause


def test_no_percent_is_given_where_stable_does_not_answer_over_streams(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The refusal comes before the intent is written: nothing is patched, and it is not retried."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SLIPWAY_INGRESS", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}'
    )
    streamed = with_streaming(release_run, protocol="grpc", timeout_s=0.5)
    operator = ShiftTrafficOperator(task_id="task", release=streamed.model_dump_json())
    with pytest.raises(AirflowFailException, match="nothing would read the answers") as caught:
        operator.execute({})
    assert cause(caught) is StreamsUnreadError
    assert service.patches == []
    assert state(store).intended_weight is None
