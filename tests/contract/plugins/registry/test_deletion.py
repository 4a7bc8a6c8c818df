"""Deleting a version: whoever dies at whatever request, it is whole or gone, and its number is not used again."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.deletion import delete_version
from slipway.registry.registry import ModelRegistry
from slipway.registry.reuse import decided_manifest
from slipway.registry.verification import require_published_repository, verify_version
from slipway_core.errors import StoreUnavailableError, VersionDeletedError
from slipway_core.publishing.tombstone import Tombstone
from tests.support.store.interleaving import Killed, MortalStore
from tests.support.store.publishing import Prepare, held, patient, prepared, publish

_versions = itertools.count(100)


def tombstone(version: int, run: str = "gc-1") -> Tombstone:
    return Tombstone(
        model="digits",
        version=version,
        begun_at=datetime(2026, 11, 22, tzinfo=UTC),
        run=run,
        started_by="alice",
        approved_by="bob",
        plan_sha256="a" * 64,
        reason="40 days old",
    )


def kept(version: int) -> set[str]:
    """What stays of a deleted version."""
    root = f"models/digits/{version}/"
    return {
        f"{root}deleted.json",
        f"{root}evidence/deleted-manifest.json",
        f"{root}evidence/run/release.json",
    }


@patient
@given(dies_at=st.integers(1, 30), answer_lost=st.booleans())
def test_killed_at_any_request(
    store: ModelStoreHook, prepare_version: Prepare, dies_at: int, answer_lost: bool
) -> None:
    """What is left is whole, or cannot be published, verified or found any more; the next call takes the rest away."""
    version = next(_versions)
    one = prepared(prepare_version, version, weight_files=3)
    publish(store, one)
    store.write(f"models/digits/{version}/evidence/run/release.json", b"{}")
    mortal = MortalStore(store, dies_at=dies_at, answer_lost=answer_lost)
    try:
        delete_version(mortal, tombstone(version), held, workers=1)
    except Killed:
        pass
    else:
        assert mortal.requests < dies_at
    if store.exists(f"models/digits/{version}/deleted.json"):
        for ask in (
            lambda: publish(store, one),
            lambda: ModelRegistry(store).require("digits", version),
            lambda: decided_manifest(store, "digits", version),
            lambda: verify_version(store, "digits", version),
            lambda: require_published_repository(store, "digits", version, None),
        ):
            with pytest.raises(VersionDeletedError, match="by the run gc-1: 40 days old"):
                ask()
    else:
        assert verify_version(store, "digits", version) == []
    delete_version(store, tombstone(version, run="gc-2"), held)
    assert {entry.key for entry in store.entries(f"models/digits/{version}/")} == kept(version)
    delete_version(store, tombstone(version, run="gc-3"), held)
    with pytest.raises(VersionDeletedError):
        publish(store, prepared(prepare_version, version, model=b"other bytes"))


def test_the_manifest_goes_first(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """No file of the version is gone while its manifest lies there."""
    publish(store, prepared(prepare_version, 1, weight_files=3))
    deleted: list[str] = []
    watched = MortalStore(store)
    watched.client.meta.events.register(
        "before-call.s3.DeleteObject",
        lambda params, **_: deleted.append(params["url_path"].rpartition("/")[2]),
    )
    removed = delete_version(watched, tombstone(1), held, workers=1)
    assert deleted[:2] == ["manifest.json", "publication.json"]
    assert removed.objects == len(deleted)


def test_what_was_deleted_can_still_be_told(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """The manifest's copy and its digest stay, with who deleted the version and who agreed."""
    publish(store, prepared(prepare_version, 1))
    document = store.read("models/digits/1/manifest.json")
    _, digest = ModelRegistry(store).require_with_digest("digits", 1)
    delete_version(store, tombstone(1), held)
    assert store.read("models/digits/1/evidence/deleted-manifest.json") == document
    told = Tombstone.from_bytes(store.read("models/digits/1/deleted.json") or b"")
    assert (told.manifest_sha256, told.started_by, told.approved_by) == (digest, "alice", "bob")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 60_000, b" " * (1 << 20)])
def test_a_tombstone_that_cannot_be_read_counts(
    store: ModelStoreHook, prepare_version: Prepare, content: bytes
) -> None:
    """Whatever lies at its place, the version is not used any more."""
    publish(store, prepared(prepare_version, 1))
    store.write("models/digits/1/deleted.json", content)
    with pytest.raises(VersionDeletedError, match="a tombstone that cannot be read"):
        ModelRegistry(store).require("digits", 1)


def test_a_publisher_that_is_overtaken_writes_no_manifest(
    store: ModelStoreHook, prepare_version: Prepare
) -> None:
    """A tombstone that comes while files are copied keeps the manifest away."""
    one = prepared(prepare_version, 1)
    watched = MortalStore(store)

    def entomb(**_: object) -> None:
        store.write_once("models/digits/1/deleted.json", tombstone(1).to_bytes())

    watched.client.meta.events.register("before-call.s3.CopyObject", entomb)
    with pytest.raises(VersionDeletedError):
        publish(watched, one)
    assert not store.exists("models/digits/1/manifest.json")


def test_a_store_that_is_away_is_no_deletion(cut_off_store: ModelStoreHook) -> None:
    """Whether there is a tombstone cannot be told then."""
    with pytest.raises(StoreUnavailableError):
        ModelRegistry(cut_off_store).manifest("digits", 1)


def test_bucket_with_versions(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """In a bucket with versioning the files get delete markers; their history stays until the bucket's rules end it."""
    store.client.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
    publish(store, prepared(prepare_version, 1))
    delete_version(store, tombstone(1), held)
    found = store.client.list_object_versions(Bucket=store.bucket, Prefix="models/digits/1/repository/")
    assert found["DeleteMarkers"]
    assert found["Versions"]
    assert store.entries("models/digits/1/repository/") == []
