"""A store that takes conditions and ignores them is found out, and named, before anything relies on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks import s3_guarantees
from slipway.hooks.s3_guarantees import ask_guarantees, require_guarantees
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import StoreUnavailableError, StoreUnfitError
from slipway_core.operations.layout import PROBE_PREFIX
from slipway_core.spec.release_file import Encryption
from tests.support.store.connections import aws_connection
from tests.support.store.fault_proxy import Faults, fault_proxy

IGNORED = {
    "If-None-Match of PutObject": ("PUT", "if-none-match", "If-None-Match: * over an object"),
    "If-Match of PutObject": ("PUT", "if-match", "If-Match of a former object"),
    "If-Match of DeleteObject": ("DELETE", "if-match", "DeleteObject with the If-Match"),
}


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No earlier test has asked."""
    monkeypatch.setattr(s3_guarantees, "_asked", {})


@pytest.fixture
def behind_proxy(
    bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], ModelStoreHook]]:
    """The store behind a proxy that drops a header of requests with a method."""
    faults = Faults()
    with fault_proxy(s3_endpoint, faults) as address:
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(address))
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

        def dropping(method: str, header: str) -> ModelStoreHook:
            faults.dropped = (method, header)
            return ModelStoreHook(bucket)

        yield dropping


def test_a_store_that_keeps_all_of_it_is_asked_once_and_left_clean(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left below the prefix, and the same process does not ask again on the same day."""
    require_guarantees(store)
    assert store.entries("") == []

    def again(*_: Any, **__: Any) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(s3_guarantees, "ask_guarantees", again)
    require_guarantees(ModelStoreHook(store.bucket))


def test_of_many_creators_at_once_one_wins(store: ModelStoreHook) -> None:
    """What `slipway store-check` asks beyond that."""
    *_, creators = ask_guarantees(store, at_once=True)
    assert creators.is_kept, creators
    assert store.entries(PROBE_PREFIX) == []


@pytest.mark.parametrize("what", IGNORED)
def test_a_condition_that_is_dropped_on_its_way_is_named(
    what: str, behind_proxy: Callable[[str, str], ModelStoreHook], s3_endpoint: str
) -> None:
    """With the endpoint, what was expected and found, and what to do; nothing of the asking is left."""
    method, header, told = IGNORED[what]
    store = behind_proxy(method, header)
    for _ in range(2):  # what was refused is asked again
        with pytest.raises(StoreUnfitError) as caught:
            require_guarantees(store)
    error = caught.value
    assert told in error.what
    assert f"{store.client.meta.endpoint_url}, bucket {store.bucket!r}" in error.what
    assert "412" in str(error.expected)
    assert "HTTP 200" in str(error.found)
    assert "store-check" in str(error.remedy)
    assert store.entries("") == []


def test_a_store_that_knows_no_conditions_is_named_too(
    store: ModelStoreHook, behind_proxy: Callable[[str, str], ModelStoreHook]
) -> None:
    """501 to a condition is no answer that may be tried again: a person must choose another store."""
    unknowing = behind_proxy("", "")
    unknowing.client.meta.events.register("before-call.s3.PutObject", _not_implemented)
    with pytest.raises(StoreUnfitError, match="501 NotImplemented"):
        require_guarantees(unknowing)


def test_a_digest_that_nobody_has_computed_is_refused(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """moto stores a body whose SHA-256 is wrong; a store that then tells it as its own would hide any damage."""
    assert [one.is_needed for one in ask_guarantees(store) if "not the body's" in one.what] == [False]
    asked: dict[str, str] = {}

    def keep(params: dict[str, Any], **_: Any) -> None:
        if "x-amz-checksum-sha256" in params["headers"]:
            asked["claimed"] = params["headers"]["x-amz-checksum-sha256"]

    def tell(parsed: dict[str, Any], **_: Any) -> None:
        if "claimed" in asked:
            parsed["ChecksumSHA256"] = asked["claimed"]

    store.client.meta.events.register("before-call.s3.PutObject", keep)
    store.client.meta.events.register("after-call.s3.HeadObject", tell)
    with pytest.raises(StoreUnfitError, match="SHA-256 that is not the body's"):
        require_guarantees(store)


def test_encryption_that_is_not_told_is_refused(bucket: str, connections: None) -> None:
    """A store may take what asks for encryption, and store the object as it is."""
    asked = Encryption(algorithm="aws:kms", kms_key_id="alias/slipway")
    store = ModelStoreHook(bucket, encryption=asked)
    require_guarantees(store)
    s3_guarantees._asked.clear()
    store.client.meta.events.register(
        "after-call.s3.HeadObject", lambda parsed, **_: parsed.pop("ServerSideEncryption", None)
    )
    with pytest.raises(StoreUnfitError, match=r"aws:kms.*it reports none"):
        require_guarantees(store)


@pytest.mark.parametrize("number", range(7))
def test_an_answer_that_is_lost_makes_no_store_unfit(
    number: int, bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is sent again, and the server refuses it for what the first one has done."""
    writes = itertools.count()
    faults = Faults(
        lambda method, path: method in ("PUT", "DELETE") and next(writes) == number, ["reset after"]
    )
    with fault_proxy(s3_endpoint, faults) as address:
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(address))
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
        require_guarantees(ModelStoreHook(bucket))
    assert faults.met == 1


def test_a_store_that_is_away_is_not_called_unfit(cut_off_store: ModelStoreHook) -> None:
    """That may be tried again, and what cannot be asked is not taken for kept."""
    with pytest.raises(StoreUnavailableError):
        require_guarantees(cut_off_store)


def _not_implemented(params: dict[str, Any], **_: Any) -> Any:
    if "If-None-Match" not in params["headers"]:
        return None
    from botocore.awsrequest import AWSResponse

    body = {"Error": {"Code": "NotImplemented", "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": 501}}
    return AWSResponse("", 501, {}, None), body


def test_airflow_does_not_try_it_again() -> None:
    """It is an error of those that a person must mend."""
    from slipway.failures import airflow_failures

    with pytest.raises(AirflowFailException), airflow_failures():
        raise StoreUnfitError("the store")
