"""Bytes under way: what networks and S3 do to them is met with patience, then a clear error; never half a version."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slipway.hooks import transfer
from slipway.hooks.registry import ModelRegistry
from slipway.hooks.store import ModelStoreHook
from slipway.hooks.verification import verify_version

from include.model_release.errors import StoreUnavailableError
from tests.contract.plugins.conftest import Publication, aws_connection
from tests.contract.plugins.fault_proxy import FAULTS, Faults, fault_proxy
from tests.contract.plugins.test_publisher import prepared

Prepare = Callable[..., Publication]
BODY = bytes(range(256)) * 20_000  # 5 MB: several chunks
_versions = itertools.count(1)


@pytest.fixture
def faults() -> Faults:
    """No faults, until a test plans some."""
    return Faults()


@pytest.fixture
def faulty(
    store: ModelStoreHook, s3_endpoint: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModelStoreHook]:
    """The test's bucket, reached through the proxy, with as many attempts as users have; pauses are short."""
    monkeypatch.setattr(transfer, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(
        "botocore.retries.standard.ExponentialBackoff.delay_amount", lambda self, context: 0.0
    )
    monkeypatch.delenv("AWS_MAX_ATTEMPTS")
    assert store.client  # made before its connection is another
    with fault_proxy(s3_endpoint, faults) as endpoint:
        monkeypatch.setenv("AIRFLOW_CONN_FAULTY", aws_connection(endpoint))
        yield ModelStoreHook(store.bucket, "faulty")


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("bad digest", "409")])
def test_read_outlives_faults(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, fault: str
) -> None:
    """Whatever happens to an answer, three times in a row, what is read in the end is what lies there."""
    store.write("k", BODY)
    faults.plan = [fault] * 3
    assert faulty.read("k") == BODY
    faults.plan = [fault] * 3
    assert faulty.sha256("k") == (hashlib.sha256(BODY).hexdigest(), len(BODY))
    assert faults.met == 6


def test_broken_read_goes_on_where_it_ended(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults
) -> None:
    """A stream that breaks off is not read from its beginning again."""
    store.write("k", BODY)
    ranges: list[str] = []
    faulty.client.meta.events.register(
        "before-call.s3.GetObject", lambda params, **_: ranges.append(params["headers"].get("Range", "all"))
    )
    faults.plan = ["truncated"]
    assert faulty.sha256("k")[0] == hashlib.sha256(BODY).hexdigest()
    assert ranges[0] == "all"
    assert int(ranges[1].removeprefix("bytes=").removesuffix("-")) >= 2**20


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_without_end_is_a_clear_error(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, fault: str
) -> None:
    """What does not end is an error that names the object, may be tried again, and shows no credentials."""
    store.write("k", BODY)
    faults.plan = [fault] * 100
    with pytest.raises(StoreUnavailableError, match=f"s3://{store.bucket}/k") as caught:
        faulty.sha256("k")
    assert "slipway-test" not in str(caught.value)


@pytest.mark.parametrize("fault", ["500", "503", "reset", "reset after"])
@pytest.mark.parametrize("action", ["write", "copy"])
def test_write_outlives_faults(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, fault: str, action: str
) -> None:
    """A write or copy that meets what passes is done in the end."""
    store.write("source", BODY)
    faults.matches = lambda method, path: method == "PUT"
    faults.plan = [fault] * 3
    if action == "write":
        faulty.write("k", BODY)
    else:
        assert faulty.copy("source", "k") == hashlib.sha256(BODY).hexdigest()
    assert faults.met == 3
    assert store.read("k") == BODY


def test_undecided_condition_is_asked_again(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults
) -> None:
    """A 409 says only that another conditional write was under way: the question is put again, until it is answered."""
    store.write("source", BODY)
    faults.matches = lambda method, path: method == "PUT"
    faults.plan = ["409"] * 3
    assert faulty.write_once("k", BODY) is True
    faults.plan = ["409"] * 3
    assert faulty.write_once("k", b"another") is False
    faults.plan = ["409"] * 3
    assert faulty.copy("source", "copied", only_new=True) == hashlib.sha256(BODY).hexdigest()
    assert faults.met == 9
    assert store.read("k") == BODY


def test_condition_that_stays_undecided_is_never_an_answer(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where S3 never says who was first, nobody is told that he was, nor that he was not."""
    monkeypatch.setattr("slipway.hooks.store._FIRST_PAUSE_S", 0.001)
    faults.plan = ["409"] * 100
    with pytest.raises(StoreUnavailableError, match="ConditionalRequestConflict"):
        faulty.write_once("k", BODY)
    assert not store.exists("k")


def test_refused_checksum_is_told(store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults) -> None:
    """Bytes that arrived otherwise than they were sent are refused by S3 (BadDigest), and nothing was written."""
    faults.plan = ["bad digest"] * 100
    with pytest.raises(StoreUnavailableError, match="BadDigest"):
        faulty.write("k", BODY)
    assert not store.exists("k")


def test_lost_answer_of_a_first_write_is_no_second_writer(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, prepare_version: Prepare
) -> None:
    """Where only the answer to the deciding write was lost, its author finds its own decision and goes on."""
    one = prepared(prepare_version, 1)
    faults.matches = lambda method, path: method == "PUT" and path.endswith("publication.json")
    faults.plan = ["reset after"]
    ModelRegistry(faulty, workers=1).publish(one.manifest, one.sources, one.golden)
    assert faults.met == 1
    assert verify_version(store, "digits", 1) == []


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=st.lists(st.sampled_from(("", "", *FAULTS)), max_size=40))
def test_version_is_whole_or_not_there(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, prepare_version: Prepare, plan: list[str]
) -> None:
    """Under any sequence of faults the bucket holds the whole version or none, and a publisher in calm finishes it."""
    version = next(_versions)
    one = prepared(prepare_version, version, weight_files=2)
    faults.plan = list(plan)
    try:
        ModelRegistry(faulty).publish(one.manifest, one.sources, one.golden)
    except StoreUnavailableError:
        pass
    else:
        assert ModelRegistry(store).manifest("digits", version) is not None
    faults.plan = []
    if ModelRegistry(store).manifest("digits", version) is not None:
        assert verify_version(store, "digits", version) == []
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    assert verify_version(store, "digits", version) == []
