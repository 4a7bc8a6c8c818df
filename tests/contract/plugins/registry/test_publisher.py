"""Publishing: whoever dies at whatever request, and whoever else publishes: a version is whole, or not there."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from hypothesis import example, given
from hypothesis import strategies as st

from slipway.hooks.s3_listing import StoredObject
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry, StoredSource
from slipway.registry.verification import verify_version
from slipway_core.errors import SlipwayError, VersionConflictError
from slipway_core.publishing.manifest import FileEntry
from slipway_core.publishing.publication import PartsDigest
from slipway_core.spec.release_file import Encryption, Publishing
from tests.support.store.interleaving import Killed, MortalStore, Turns
from tests.support.store.publication import Publication
from tests.support.store.publishing import KEY, Prepare, attachments, left_over, patient, prepared, publish

_versions = itertools.count(100)


@patient
@given(dies_at=st.integers(1, 50), answer_lost=st.booleans(), reconverted=st.booleans())
def test_killed_at_any_request(
    store: ModelStoreHook, prepare_version: Prepare, dies_at: int, answer_lost: bool, reconverted: bool
) -> None:
    """A publisher that dies leaves a whole version or none; the next one, whatever its bytes, ends with a whole one."""
    version = next(_versions)
    one = prepared(prepare_version, version, weight_files=2)
    mortal = MortalStore(store, dies_at=dies_at, answer_lost=answer_lost)
    try:
        publish(mortal, one, **attachments(one))
    except Killed:
        pass
    else:
        assert mortal.requests < dies_at
    registry = ModelRegistry(store)
    if registry.manifest("digits", version) is not None:
        assert verify_version(store, "digits", version, KEY) == []
    decided = store.exists(f"models/digits/{version}/publication.json")
    if reconverted:
        one = prepared(prepare_version, version, model=b"converted once more", weight_files=1)
    try:
        publish(store, one, **attachments(one))
    except VersionConflictError:
        assert decided
        assert reconverted
    assert verify_version(store, "digits", version, KEY) == []
    assert left_over(store, version) == []
    same = registry.require("digits", version).files == one.manifest.files
    assert same is not (decided and reconverted)


@patient
@given(
    order=st.lists(st.integers(0, 1), max_size=100),
    alike=st.booleans(),
    dies_at=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
@example(order=[0, 1] * 50, alike=False, dies_at=(0, 0))
@example(order=[0, 1] * 50, alike=True, dies_at=(0, 0))
def test_two_publishers_at_once(
    store: ModelStoreHook, prepare_version: Prepare, order: list[int], alike: bool, dies_at: tuple[int, int]
) -> None:
    """However requests mix and whoever dies: where there is a manifest, every byte is its own; one content wins."""
    version = next(_versions)
    first = prepared(prepare_version, version, weight_files=1)
    other = first if alike else rival(store, first, version)
    damage: list[str] = []
    sealed: list[list[StoredObject]] = []

    def look() -> None:
        there = store.entries(f"models/digits/{version}/")
        if any(entry.key.endswith("/manifest.json") for entry in there):
            if not sealed:
                damage.extend(map(str, verify_version(store, "digits", version, KEY)))
            sealed.append(there)

    turns = Turns(order, look)
    outcomes: dict[int, object] = {}

    def run(me: int, one: Publication) -> None:
        try:
            mine = MortalStore(store, turns=turns, me=me, dies_at=dies_at[me])
            outcomes[me] = publish(mine, one, **attachments(one))
        except (Killed, SlipwayError) as error:
            outcomes[me] = error
        finally:
            turns.leave(me)

    threads = [threading.Thread(target=run, args=(me, one)) for me, one in enumerate((first, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert damage == []
    assert all(there == sealed[0] for there in sealed), "nothing changes any more"
    told = list(outcomes.values())
    assert told.count(True) <= 1
    alive = [outcome for outcome in told if not isinstance(outcome, Killed)]
    assert all(isinstance(outcome, bool | VersionConflictError) for outcome in alive)
    if len(alive) == 2 and not alike:
        assert sum(isinstance(outcome, VersionConflictError) for outcome in told) == 1, "the other is told"
    for one in (first, other):
        try:
            publish(store, one, **attachments(one))
        except VersionConflictError:
            assert not alike
    assert verify_version(store, "digits", version, KEY) == []
    assert left_over(store, version) == []


def rival(store: ModelStoreHook, first: Publication, version: int) -> Publication:
    """Another publication of the same version, with other bytes under the same names, from other sources."""
    key = f"work/digits/{version}/elsewhere/model.onnx"
    store.write(key, b"another model")
    path = f"digits/{version}/model.onnx"
    files = {**first.manifest.files, path: FileEntry.of(b"another model")}
    del files[f"digits/{version}/weights.0"]
    sources = {name: source for name, source in first.sources.items() if name in files}
    sources[path] = StoredSource(key)
    return Publication(first.manifest.model_copy(update={"files": files}), sources, first.golden)


def test_copies_that_another_publisher_has_tidied_away(
    store: ModelStoreHook, prepare_version: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who finds a copy laid aside, and then gone, looks whether the version has been published meanwhile."""
    one = prepared(prepare_version, next(_versions))
    slow = ModelStoreHook(store.bucket, store.aws_conn_id)
    copy = slow.copy

    def copy_when_the_other_lays_aside(source: str, destination: str, **options: Any) -> str | None:
        monkeypatch.setattr(slow, "copy", copy)
        store.write(destination, store.require(source, remedy="lay it there"))
        found = copy(source, destination, **options)
        assert publish(store, one)
        return found

    monkeypatch.setattr(slow, "copy", copy_when_the_other_lays_aside)
    assert publish(slow, one) is False
    assert verify_version(store, "digits", one.manifest.version) == []
    assert left_over(store, one.manifest.version) == []


def test_decided_version_outlives_its_sources(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """What was decided is finished by a publisher with other bytes, from where it was laid; that one is told."""
    one = prepared(prepare_version, 1)
    dies_at = next(
        n for n in itertools.count(1) if decides(store, prepared(prepare_version, next(_versions)), n)
    )
    with pytest.raises(Killed):
        publish(MortalStore(store, dies_at=dies_at, answer_lost=True), one)
    assert ModelRegistry(store).manifest("digits", 1) is None
    with pytest.raises(VersionConflictError, match="digits version 1 is already published"):
        publish(store, prepared(prepare_version, 1, model=b"reconverted"))
    assert verify_version(store, "digits", 1) == []
    assert store.read("models/digits/1/repository/digits/1/model.onnx") == b"an onnx model"


def decides(store: ModelStoreHook, one: Publication, dies_at: int) -> bool:
    """Whether a publisher that dies at this request has decided, but not published."""
    with pytest.raises(Killed):
        publish(MortalStore(store, dies_at=dies_at, answer_lost=True), one)
    return store.exists(f"models/digits/{one.manifest.version}/publication.json")


def test_what_is_there_is_not_copied_again(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """The next publisher copies only what the one that died had not yet brought to its place."""
    one = prepared(prepare_version, 1, weight_files=6)
    copies: list[str] = []
    with pytest.raises(Killed):
        publish(MortalStore(store, dies_at=26, answer_lost=True), one)
    there = {entry.key for entry in store.entries("models/digits/1/repository/")}
    missing = {f"models/digits/1/repository/{path}" for path in one.manifest.files} - there
    assert there, "it died among the copies"
    assert missing
    watched = MortalStore(store)
    watched.client.meta.events.register(
        "before-call.s3.CopyObject", lambda params, **_: copies.append(params["url_path"])
    )
    assert publish(watched, one) is True
    assert {f"models/{path.partition('/models/')[2]}" for path in copies} == missing | {
        "models/digits/1/golden.npz"
    }


def test_foreign_files_in_the_repository_go(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """What an inference server would download though it is no part of the version is gone when the version exists."""
    store.write("models/digits/1/repository/digits/1/left-over.bin", b"of long ago")
    store.write("models/digits/1/repository/digits/1/model.onnx", b"half")
    assert publish(store, prepared(prepare_version, 1)) is True
    assert verify_version(store, "digits", 1) == []


def test_bucket_with_versions(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """In a bucket with versioning files are copied once, from the version that was seen, and no version is deleted."""
    store.client.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
    one = prepared(prepare_version, 1)
    assert publish(store, one) is True
    decision = store.read_json("models/digits/1/publication.json")
    model = decision["origins"]["repository/digits/1/model.onnx"]
    assert model["key"] == "work/digits/1/convert/model.onnx"
    assert model["version_id"]
    assert verify_version(store, "digits", 1) == []
    copied_aside = [key for key in decision["origins"].values() if "/publish/" in key["key"]]
    assert len(copied_aside) == 1, "only the configuration, which had no object of its own"
    versions = store.client.list_object_versions(Bucket=store.bucket)["Versions"]
    assert copied_aside[0]["key"] in {entry["Key"] for entry in versions}


@pytest.mark.usefixtures("small_limit")
def test_file_above_the_limit_of_one_copy(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """A file too large for one copy is copied in parts and read once to be sure."""
    one = prepared(prepare_version, 1, model=bytes(range(256)) * 4096 * 12)  # 12 MiB
    assert publish(store, one) is True
    assert verify_version(store, "digits", 1) == []
    assert left_over(store, 1) == []


class Parts:
    """A file written in parts of 5 MiB, as a converter does, and what is known of it where it was written."""

    def __init__(self, store: ModelStoreHook, key: str) -> None:
        self.body = bytes(range(256)) * 4096 * 12  # 12 MiB
        size = 5 * 2**20
        store.client.upload_fileobj(
            io.BytesIO(self.body),
            store.bucket,
            key,
            ExtraArgs={"ChecksumAlgorithm": "SHA256"},
            Config=TransferConfig(multipart_threshold=size, multipart_chunksize=size),
        )
        pieces = [self.body[start : start + size] for start in range(0, len(self.body), size)]
        inner = b"".join(hashlib.sha256(piece).digest() for piece in pieces)
        outer = base64.b64encode(hashlib.sha256(inner).digest()).decode()
        self.digest = PartsDigest(size_bytes=size, sha256=outer)

    def version_of(self, prepare: Prepare, **changes: Any) -> Publication:
        """A version with this file as its model."""
        one = prepared(prepare, 1, model=self.body)
        path = "digits/1/model.onnx"
        told = {"measured": FileEntry.of(self.body), "parts": self.digest, **changes}
        source = StoredSource("work/digits/1/convert/in-parts.onnx", **told)
        return Publication(one.manifest, {**one.sources, path: source}, one.golden)


@pytest.fixture
def parts(store: ModelStoreHook) -> Parts:
    """A file in parts, in a bucket with versioning."""
    store.client.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
    return Parts(store, "work/digits/1/convert/in-parts.onnx")


@pytest.mark.parametrize("in_one_copy", [True, False])
def test_file_that_came_in_parts_is_copied_once_and_never_read(
    store: ModelStoreHook,
    prepare_version: Prepare,
    parts: Parts,
    request: pytest.FixtureRequest,
    in_one_copy: bool,
) -> None:
    """S3's digest of the parts' digests shows what a large file is, before the copy and, where it has parts, after."""
    if not in_one_copy:
        request.getfixturevalue("small_limit")
    reads: list[str] = []
    store.client.meta.events.register(
        "before-call.s3.GetObject", lambda params, **_: reads.append(params["url_path"])
    )
    assert publish(store, parts.version_of(prepare_version)) is True
    assert [path for path in reads if "onnx" in path] == []
    place = "models/digits/1/repository/digits/1/model.onnx"
    facts = store.stat(place)
    assert facts is not None
    whole = hashlib.sha256(parts.body).hexdigest()
    assert (facts.sha256, facts.parts_sha256) == (
        (whole, None) if in_one_copy else (None, parts.digest.sha256)
    )
    origin = store.read_json("models/digits/1/publication.json")["origins"]["repository/digits/1/model.onnx"]
    assert origin["key"] == "work/digits/1/convert/in-parts.onnx"
    assert verify_version(store, "digits", 1) == []


def test_other_parts_than_were_written_are_refused(
    store: ModelStoreHook, prepare_version: Prepare, parts: Parts
) -> None:
    """A large file that was replaced after its converter had measured it is not published."""
    other = parts.digest.model_copy(update={"sha256": f"{'A' * 43}="})
    measured = FileEntry(size_bytes=len(parts.body), sha256="0" * 64)
    one = parts.version_of(prepare_version, parts=other, measured=measured)
    files = {**one.manifest.files, "digits/1/model.onnx": measured}
    manifest = one.manifest.model_copy(update={"files": files})
    with pytest.raises(VersionConflictError, match=r"in-parts\.onnx"):
        publish(store, Publication(manifest, one.sources, one.golden))
    assert not store.exists("models/digits/1/publication.json")


def test_decision_that_vanishes_is_no_own_decision(
    store: ModelStoreHook, prepare_version: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told that another was first, and finds no decision, lays nothing in place."""
    monkeypatch.setattr(store, "write_once", lambda *_, **__: False)
    with pytest.raises(VersionConflictError, match=r"publication\.json has just disappeared"):
        publish(store, prepared(prepare_version, 1))
    assert store.entries("models/digits/1/repository/") == []


def test_begun_uploads_are_dropped(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """Parts that a publisher or a converter which died has left of this version are dropped, and no others."""
    ours = ("models/digits/1/repository/digits/1/model.onnx", "work/digits/1/convert/model.onnx")
    for key in (*ours, "models/digits/2/repository/x"):
        store.client.create_multipart_upload(Bucket=store.bucket, Key=key)
    publish(store, prepared(prepare_version, 1))
    uploads = store.client.list_multipart_uploads(Bucket=store.bucket)["Uploads"]
    assert [upload["Key"] for upload in uploads] == ["models/digits/2/repository/x"]


def head(store: ModelStoreHook, key: str) -> Mapping[str, Any]:
    """Return what S3 tells of an object."""
    answer: Mapping[str, Any] = store.client.head_object(Bucket=store.bucket, Key=key, ChecksumMode="ENABLED")
    return answer


def test_people_can_browse_the_bucket(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """Every object says which model and version it is of, its SHA-256, and the tags that the release file asks for."""
    one = prepared(prepare_version, 1)
    source = one.manifest.source.model_copy(update={"dataset_version": "märz #1", "accuracy": 0.97})
    one = Publication(one.manifest.model_copy(update={"source": source}), one.sources, one.golden)
    publish(store, one, settings=Publishing(tags={"team": "vision"}))
    key = "models/digits/1/repository/digits/1/model.onnx"
    told = head(store, key)
    sha256 = one.manifest.files["digits/1/model.onnx"].sha256
    assert told["Metadata"] == {"slipway-model": "digits", "slipway-version": "1", "slipway-sha256": sha256}
    assert told["ChecksumSHA256"]
    assert head(store, "models/digits/1/repository/digits/config.pbtxt")["ContentType"] == "text/plain"
    for tagged in (key, "models/digits/1/manifest.json"):
        tags = store.client.get_object_tagging(Bucket=store.bucket, Key=tagged)["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == {
            "slipway:model": "digits",
            "slipway:version": "1",
            "slipway:accuracy": "0.97",
            "slipway:dataset-version": "märz _1",
            "team": "vision",
        }


def test_without_the_right_to_tag(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """Where the release file says so nothing is tagged."""
    publish(store, prepared(prepare_version, 1), settings=Publishing(tag_objects=False))
    tags = store.client.get_object_tagging(Bucket=store.bucket, Key="models/digits/1/manifest.json")
    assert tags["TagSet"] == []


def test_encryption_as_the_release_file_says(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """Every object of the version is encrypted with the key that the release file names."""
    settings = Publishing(encryption=Encryption(kms_key_id="alias/models"))
    publish(store, prepared(prepare_version, 1), settings=settings)
    for entry in store.entries("models/digits/1/"):
        told = head(store, entry.key)
        assert told["ServerSideEncryption"] == "aws:kms", entry.key
        assert told["SSEKMSKeyId"] == "alias/models"
