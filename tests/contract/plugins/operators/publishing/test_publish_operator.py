"""Publishing as the release's task does it: what is written, how it is kept, and who else writes at the same time."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.publish import PublishModelOperator
from slipway.registry import publisher
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import SigningKey
from slipway.registry.verification import verify_version
from slipway.release_run import ReleaseRun
from slipway_core.errors import SlipwayError
from slipway_core.publishing.manifest import FileEntry
from tests.support.examples import examples
from tests.support.release.published_objects import COMMIT, below, encryption_of, head, published
from tests.support.release.scale_release import (
    CONTEXT,
    MODEL,
    SBOM,
    TOOLS,
    convert,
    release_run_of,
    run,
    state_of,
)
from tests.support.store.interleaving import Killed, MortalStore, Turns
from tests.support.store.publishing import patient
from tests.support.store.signing_keys import key_of

_versions = itertools.count(100)
a_few = settings(patient, max_examples=examples(3))


def test_manifest_says_where_the_version_came_from(store: ModelStoreHook) -> None:
    """Source files, what training said of them, what converted them, and which state of this project published."""
    before = datetime.now(UTC)
    manifest = published(store)
    assert manifest.model_dump(
        mode="json",
        include={"source": {"dataset_version", "accuracy", "trained_at", "framework", "metadata"}},
    )["source"] == {
        "dataset_version": "2026-10",
        "accuracy": 0.97,
        "trained_at": "2026-11-01T12:00:00Z",
        "framework": "numpy 1.26.4",
        "metadata": {"run": "a1b2"},
    }
    assert set(manifest.source.files) == {"config.pbtxt", "model.py", "golden.npz"}
    for name, entry in manifest.source.files.items():
        assert entry == FileEntry.of(store.read(f"incoming/{MODEL}/1/{name}") or b"")
    assert manifest.tools == TOOLS
    assert (manifest.project_commit, manifest.project_version) == (COMMIT, "0.1.0")
    assert (manifest.model, manifest.version) == (MODEL, 1)
    assert before <= manifest.created_at <= datetime.now(UTC)


def test_attachments_lie_beside_the_repository(store: ModelStoreHook, tmp_path: Path) -> None:
    """Golden set, list of packages and signature lie where no inference server downloads them, and are measured."""
    key = key_of(tmp_path)
    manifest = published(store, signing={"private_key_file": str(tmp_path / "key.pem")})
    root = f"models/{MODEL}/1/"
    assert set(manifest.attachments) == {"golden.npz", "recipe.json", "sbom.json", "model.sig"}
    for name, entry in manifest.attachments.items():
        assert entry == FileEntry.of(store.read(root + name) or b"")
    assert store.read(f"{root}sbom.json") == SBOM
    assert store.read(f"{root}golden.npz") == store.read(f"incoming/{MODEL}/1/golden.npz")
    assert set(below(store, root)) == {
        *(f"{root}{name}" for name in ("publication.json", "manifest.json", *manifest.attachments)),
        *(f"{root}repository/{MODEL}/{name}" for name in ("config.pbtxt", "1/model.py")),
    }
    assert verify_version(store, MODEL, 1, key) == []


def test_version_without_key_and_list_has_neither(store: ModelStoreHook) -> None:
    """A converter that left no list of packages, and a release file without a key, hold nothing up."""
    release_run = release_run_of(store)
    convert(store, release_run, sbom=False)
    run(PublishModelOperator, release_run)
    assert set(ModelRegistry(store).require(MODEL, 1).attachments) == {"golden.npz", "recipe.json"}


def test_every_object_says_what_it_is(store: ModelStoreHook, tmp_path: Path) -> None:
    """Metadata, tags and a content type are on each object of the version, whoever it is for."""
    key_of(tmp_path)
    signing = {"private_key_file": str(tmp_path / "key.pem")}
    published(store, signing=signing, tags={"team": "vision", "cost centre": "4711"})
    types = {"json": "application/json", "sig": "application/json", "pbtxt": "text/plain"}
    keys = below(store, f"models/{MODEL}/1/")
    assert len(keys) == 8
    for key in keys:
        told = head(store, key)
        metadata = dict(told["Metadata"])
        digest = metadata.pop("slipway-sha256", None)
        assert metadata == {"slipway-model": MODEL, "slipway-version": "1"}, key
        if not key.endswith(("manifest.json", "publication.json")):
            assert digest == FileEntry.of(store.read(key) or b"").sha256
        assert told["ContentType"] == types.get(key.rpartition(".")[2], "application/octet-stream"), key
        tags = store.client.get_object_tagging(Bucket=store.bucket, Key=key)["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == {
            "slipway:model": MODEL,
            "slipway:version": "1",
            "slipway:accuracy": "0.97",
            "slipway:dataset-version": "2026-10",
            "slipway:trained-at": "2026-11-01T12:00:00+00:00",
            "team": "vision",
            "cost centre": "4711",
        }, key


def large(store: ModelStoreHook, release_run: ReleaseRun) -> str:
    """Let the converted model be too large for one copy; return the key that it is published under."""
    convert(store, release_run)
    path, body = f"{MODEL}/1/model.py", b"#" * (12 * 2**20)
    store.write(f"{release_run.work_prefix}repository/{path}", body)
    result = store.read_json(f"{release_run.work_prefix}result.json")
    assert result is not None
    result["repository"]["files"] = [{"path": path, **FileEntry.of(body).model_dump()}]
    store.write_json(f"{release_run.work_prefix}result.json", result)
    return f"models/{MODEL}/1/repository/{path}"


@pytest.mark.usefixtures("small_limit")
def test_file_copied_in_parts_is_kept_like_the_others(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encryption, the bucket's key included, metadata and tags are also those of a file too large for one copy."""
    begun: list[dict[str, Any]] = []
    made = ModelStoreHook.client.func

    def watched(self: ModelStoreHook) -> Any:
        client = made(self)
        client.meta.events.register(
            "provide-client-params.s3.CreateMultipartUpload", lambda params, **_: begun.append(dict(params))
        )
        return client

    monkeypatch.setattr(ModelStoreHook.client, "func", watched)
    encryption = {"kms_key_id": "alias/models", "bucket_key": True}
    release_run = release_run_of(store, encryption=encryption, tags={"team": "vision"})
    key = large(store, release_run)
    run(PublishModelOperator, release_run)
    assert verify_version(store, MODEL, 1) == []
    # moto keeps the key's id of an upload in parts, and forgets the bucket's key.
    assert encryption_of(store, key) == {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/models"}
    assert [one["BucketKeyEnabled"] for one in begun] == [True, True], "aside, and to its place"
    assert head(store, key)["Metadata"]["slipway-version"] == "1"
    tags = store.client.get_object_tagging(Bucket=store.bucket, Key=key)["TagSet"]
    assert {"Key": "team", "Value": "vision"} in tags


VERSIONING = ("never", "Enabled", "Suspended")


def set_versioning(store: ModelStoreHook, status: str) -> None:
    """Switch the bucket's versioning; once on, it can only be suspended."""
    for one in {"never": (), "Enabled": ("Enabled",), "Suspended": ("Enabled", "Suspended")}[status]:
        store.client.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": one})


def history(store: ModelStoreHook, prefix: str) -> dict[str, int]:
    """How many versions each object below the prefix has; a marker that it was deleted counts as one."""
    counted: dict[str, int] = {}
    answer = store.client.list_object_versions(Bucket=store.bucket, Prefix=prefix)
    for entry in [*answer.get("Versions", ()), *answer.get("DeleteMarkers", ())]:
        counted[entry["Key"]] = counted.get(entry["Key"], 0) + 1
    return counted


@pytest.mark.parametrize("status", VERSIONING)
def test_versioning_is_respected(store: ModelStoreHook, status: str) -> None:
    """Each object of a version is written once and never again; what was only on the way is gone, as far as it goes."""
    set_versioning(store, status)
    published(store)
    run(PublishModelOperator, release_run_of(store))
    assert verify_version(store, MODEL, 1) == []
    assert set(history(store, f"models/{MODEL}/1/").values()) == {1}
    assert below(store, f"work/{MODEL}/1/publish/") == []
    assert store.client.get_bucket_versioning(Bucket=store.bucket).get("Status", "never") == status


@pytest.mark.parametrize("status", VERSIONING)
def test_decided_bytes_outlive_their_source(store: ModelStoreHook, status: str) -> None:
    """A source that is written over after the decision changes nothing, with versions of objects and without."""
    set_versioning(store, status)
    release_run = release_run_of(store)
    convert(store, release_run)
    source = f"{release_run.work_prefix}repository/{MODEL}/1/model.py"
    meant = store.read(source)

    def die(*_: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publisher.Publisher, "_lay_in_place", die)
        with pytest.raises(Killed):
            run(PublishModelOperator, release_run)
    origins = store.read_json(f"models/{MODEL}/1/publication.json")
    assert origins is not None
    origin = origins["origins"][f"repository/{MODEL}/1/model.py"]
    assert (origin["key"] == source) == (status == "Enabled")
    assert (origin["version_id"] is not None) == (status == "Enabled")
    store.write(source, b"written over")
    convert(store, release_run)
    store.write(source, b"x" * len(meant or b""))
    run(PublishModelOperator, release_run)
    assert store.read(f"models/{MODEL}/1/repository/{MODEL}/1/model.py") == meant
    assert verify_version(store, MODEL, 1) == []


def publish_by(store: ModelStoreHook, release_run: ReleaseRun) -> None:
    """Run the publishing task over this store."""
    operator = PublishModelOperator(task_id="publish", release=release_run.model_dump_json())
    operator.__dict__["store"] = store
    operator.execute(CONTEXT)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are published by one worker, so that requests have an order."""
    monkeypatch.setitem(ModelRegistry.__init__.__kwdefaults__, "workers", 1)


def signed_release_run(store: ModelStoreHook, folder: Path) -> tuple[ReleaseRun, SigningKey]:
    """A converted version of its own that is signed when it is published."""
    key, version = key_of(folder), next(_versions)
    release_run = release_run_of(store, version, signing={"private_key_file": str(folder / "key.pem")})
    convert(store, release_run)
    return release_run, key


@a_few
@given(dies_at=st.integers(1, 50), answer_lost=st.booleans())
@pytest.mark.usefixtures("one_at_a_time")
def test_task_killed_at_any_request(
    store: ModelStoreHook, tmp_path: Path, dies_at: int, answer_lost: bool
) -> None:
    """Measuring, signing, deciding, laying, sealing, recording: wherever the task dies, the next one ends it."""
    release_run, key = signed_release_run(store, tmp_path)
    mortal = MortalStore(store, dies_at=dies_at, answer_lost=answer_lost)
    try:
        publish_by(mortal, release_run)
    except Killed:
        pass
    else:
        assert mortal.requests < dies_at
    if ModelRegistry(store).manifest(MODEL, release_run.version) is not None:
        assert verify_version(store, MODEL, release_run.version, key) == []
    publish_by(store, release_run)
    assert verify_version(store, MODEL, release_run.version, key) == []
    assert below(store, f"work/{MODEL}/{release_run.version}/publish/") == []
    assert state_of(store, release_run).stages[-1].outcome == "passed"


@a_few
@given(order=st.lists(st.integers(0, 1), max_size=80), dies_at=st.integers(0, 50))
@example(order=[0, 1] * 40, dies_at=0)
@pytest.mark.usefixtures("one_at_a_time")
def test_two_tasks_sign_and_publish_at_once(
    store: ModelStoreHook, tmp_path: Path, order: list[int], dies_at: int
) -> None:
    """Each signs for itself, and no signature is like another: one is decided on, it holds, and both tasks pass."""
    release_run, key = signed_release_run(store, tmp_path)
    turns = Turns(order, lambda: None)
    outcomes: dict[int, BaseException | None] = {}

    def work(me: int) -> None:
        try:
            publish_by(MortalStore(store, turns=turns, me=me, dies_at=dies_at if me else 0), release_run)
            outcomes[me] = None
        except (Killed, SlipwayError) as error:
            outcomes[me] = error
        finally:
            turns.leave(me)

    threads = [threading.Thread(target=work, args=(me,)) for me in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert outcomes[0] is None
    assert outcomes[1] is None or isinstance(outcomes[1], Killed)
    assert verify_version(store, MODEL, release_run.version, key) == []
