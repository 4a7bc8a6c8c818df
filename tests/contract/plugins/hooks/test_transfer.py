"""Bytes under way: what networks and S3 do to them is met with patience, then a clear error; never half a version."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.hooks import s3_transfer
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.registry.verification import verify_version
from slipway_core.errors import StoreUnavailableError
from tests.support.examples import each_with_each, examples
from tests.support.store.connections import aws_connection
from tests.support.store.fault_proxy import FAULTS, Faults, fault_proxy
from tests.support.store.publication import Publication
from tests.support.store.publishing import KEY, attachments, left_over, prepared, publish

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
    monkeypatch.setattr(s3_transfer, "_FIRST_PAUSE_S", 0.001)
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
    assert faulty.copy("source", "copied") == hashlib.sha256(BODY).hexdigest()
    assert faults.met == 9
    assert store.read("k") == BODY


def test_condition_that_stays_undecided_is_never_an_answer(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where S3 never says who was first, nobody is told that he was, nor that he was not."""
    monkeypatch.setattr("slipway.hooks.s3_errors._FIRST_PAUSE_S", 0.001)
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


PASSING = [fault for fault in FAULTS if fault != "bad digest"]
ENDLESS = ["500", "503", "bad digest", "reset", "reset after"]
PUBLISHING = {
    "facts of a source": r"HEAD .*/work/digits/\d+/convert/",
    "copy aside": r"PUT .*/work/digits/\d+/publish/",
    "decision": r"PUT .*/publication\.json",
    "listing": r"GET .*list-type=2.*models",
    "copy to its place": r"PUT .*/repository/",
    "list of packages": r"PUT .*/sbom\.json",
    "signature": r"PUT .*/model\.sig",
    "manifest": r"PUT .*/manifest\.json",
}
"""What publishing asks of S3, in this order, by method and path."""
READING = {
    "manifest": (r"GET .*/manifest\.json", 0),
    "listing": (r"GET .*list-type=2", 0),
    "model": (r"GET .*/model\.onnx", 0),
    "golden set": (r"GET .*/golden\.npz", 0),
    "configuration": (r"GET .*/config\.pbtxt", 0),
    "meaning of the configuration": (r"GET .*/config\.pbtxt", 1),
    "signature": (r"GET .*/model\.sig", 0),
    "validity of the signature": (r"GET .*/model\.sig", 1),
}
"""What verifying reads: method and path, and how many such requests come before."""


def always(pattern: str) -> Callable[[str, str], bool]:
    """Every request whose method and path are like this."""
    return lambda method, path: re.search(pattern, f"{method} {path}") is not None


def first_of_each(patterns: Iterable[str]) -> Callable[[str, str], bool]:
    """The first request that is like each of these."""
    left = list(patterns)

    def matches(method: str, path: str) -> bool:
        hit = next((one for one in left if re.search(one, f"{method} {path}")), None)
        if hit is not None:
            left.remove(hit)
        return hit is not None

    return matches


@pytest.mark.parametrize("fault", PASSING)
def test_publishing_outlives_a_fault_in_every_phase(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, prepare_version: Prepare, fault: str
) -> None:
    """A fault that passes, met once in each phase of one publication, is not even noticed."""
    one = prepared(prepare_version, 1)
    faults.matches, faults.plan = first_of_each(PUBLISHING.values()), [fault] * len(PUBLISHING)
    publish(faulty, one, **attachments(one))
    assert faults.met == len(PUBLISHING)
    assert verify_version(store, "digits", 1, KEY) == []


@pytest.mark.parametrize(("pattern", "fault"), each_with_each(PUBLISHING, ENDLESS))
def test_publishing_ends_with_a_clear_error(
    store: ModelStoreHook,
    faulty: ModelStoreHook,
    faults: Faults,
    prepare_version: Prepare,
    pattern: str,
    fault: str,
) -> None:
    """Under a fault without end the object is named, the version is whole or not there, and calm finishes it."""
    version = next(_versions)
    one = prepared(prepare_version, version)
    faults.matches, faults.plan = always(pattern), [fault] * 1000
    with pytest.raises(StoreUnavailableError, match=f"s3://{store.bucket}/") as caught:
        publish(faulty, one, **attachments(one))
    assert "slipway-test" not in str(caught.value)
    faults.plan = []
    if ModelRegistry(store).manifest("digits", version) is not None:
        assert verify_version(store, "digits", version, KEY) == []
    publish(store, one, **attachments(one))
    assert verify_version(store, "digits", version, KEY) == []


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("fault", [*PASSING, "late error"])
def test_copy_in_parts_outlives_a_fault_in_a_part(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, prepare_version: Prepare, fault: str
) -> None:
    """What happens to one part, three times in a row, costs that part alone another attempt."""
    one = prepared(prepare_version, 1, model=BODY * 3)
    faults.matches, faults.plan = always(r"PUT .*partNumber=2"), [fault] * 3
    publish(faulty, one)
    assert faults.met == 3
    assert verify_version(store, "digits", 1) == []


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("fault", ["500", "reset", "late error"])
def test_copy_in_parts_that_cannot_be_ended(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, prepare_version: Prepare, fault: str
) -> None:
    """A part that cannot be copied, and an upload that cannot be dropped either, leave nothing that lasts."""
    one = prepared(prepare_version, 1, model=BODY * 3)
    faults.matches, faults.plan = always(r"PUT .*partNumber=2|DELETE .*uploadId"), [fault] * 1000
    with pytest.raises(StoreUnavailableError, match=r"model\.onnx"):
        publish(faulty, one)
    faults.plan = []
    assert store.entries("models/") == []
    publish(store, one)
    assert verify_version(store, "digits", 1) == []
    assert left_over(store, 1) == []
    assert "Uploads" not in store.client.list_multipart_uploads(Bucket=store.bucket)


@pytest.mark.parametrize("fault", ["late error", "truncated", "emptied", "corrupted"])
def test_copy_outlives_a_broken_answer(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults, fault: str
) -> None:
    """An error after the status 200, and an answer of which something is missing, are no success."""
    store.write("source", BODY)
    faults.matches, faults.plan = always("PUT"), [fault] * 3
    assert faulty.copy("source", "k") == hashlib.sha256(BODY).hexdigest()
    assert faults.met == 3
    assert store.read("k") == BODY


def test_listing_that_broke_off_is_not_empty(
    store: ModelStoreHook, faulty: ModelStoreHook, faults: Faults
) -> None:
    """Nothing received is not "nothing there": such an answer is asked for again, and in the end an error."""
    store.write("k", b"")
    for fault in ("truncated", "emptied"):
        faults.plan = [fault] * 3
        assert [entry.key for entry in faulty.entries("")] == ["k"]
        faults.plan = [fault] * 100
        for ask in (faulty.entries, faulty.exists):
            with pytest.raises(StoreUnavailableError):
                ask("k")


@pytest.fixture
def signed(store: ModelStoreHook, faulty: ModelStoreHook, prepare_version: Prepare) -> ModelStoreHook:
    """The store behind the proxy, with a signed version 1 of digits."""
    one = prepared(prepare_version, 1)
    publish(store, one, **attachments(one))
    return faulty


@pytest.mark.parametrize(("pattern", "before", "fault"), each_with_each(READING, PASSING))
def test_verifying_outlives_faults(
    signed: ModelStoreHook, faults: Faults, pattern: str, before: int, fault: str
) -> None:
    """Whatever happens to an answer, three times in a row, a version that is as published is found to be so."""
    faults.matches, faults.plan = always(pattern), [""] * before + [fault] * 3
    assert verify_version(signed, "digits", 1, KEY) == []
    assert faults.met == before + 3


@pytest.mark.parametrize(("pattern", "before", "fault"), each_with_each(READING, FAULTS))
def test_what_cannot_be_read_is_no_difference(
    store: ModelStoreHook, signed: ModelStoreHook, faults: Faults, pattern: str, before: int, fault: str
) -> None:
    """Under a fault without end verifying does not call the version wrong: it says what it could not read."""
    faults.matches, faults.plan = always(pattern), [""] * before + [fault] * 1000
    with pytest.raises(StoreUnavailableError, match=f"s3://{store.bucket}/") as caught:
        verify_version(signed, "digits", 1, KEY)
    assert "slipway-test" not in str(caught.value)


@settings(
    max_examples=examples(5),
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
