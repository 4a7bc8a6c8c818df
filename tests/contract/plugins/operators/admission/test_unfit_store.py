"""A store that takes conditions and ignores them gets no release: two would hold one model's lock."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import StoreUnfitError
from tests.support.release.admission import Admit, cause, holder
from tests.support.store.connections import aws_connection
from tests.support.store.fault_proxy import Faults, fault_proxy


@pytest.mark.parametrize("lost", [("PUT", "if-none-match"), ("PUT", "if-match"), ("DELETE", "if-match")])
def test_no_release_is_admitted_where_a_condition_is_lost_on_its_way(
    lost: tuple[str, str],
    landed: ModelStoreHook,
    admit: Admit,
    s3_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the lock is taken and the record is opened, with what to do; directly asked, the same store is fine."""
    with fault_proxy(s3_endpoint, Faults(dropped=lost)) as address:
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(address))
        with pytest.raises(
            AirflowFailException, match="no proxy in front of it that drops headers"
        ) as caught:
            admit("digits-1")
    assert cause(caught) is StoreUnfitError
    assert holder(landed) is None
    assert [one.key for one in landed.entries("") if not one.key.startswith("incoming/")] == []
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(s3_endpoint))
    admit("digits-2")
    assert holder(landed) == "digits-2"
