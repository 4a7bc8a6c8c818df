"""Verifying: whatever differs from the manifest is found and named, and what could not be read is not called wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.s3_transfer import ObjectFacts
from slipway.registry import __main__
from slipway.registry.registry import ModelRegistry
from slipway.registry.verification import require_published_repository, verify_version
from slipway_core.errors import InputMissingError, StoreUnavailableError, VersionConflictError
from slipway_core.publishing.manifest import FileEntry
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.ensemble import bundle_config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt
from tests.support.store.publication import Publication
from tests.support.store.signing_keys import key_of

ROOT = "models/digits/1/"
CONFIG = b'name: "digits"'


@pytest.fixture
def published(store: ModelStoreHook, prepare_version: Callable[..., Publication]) -> ModelStoreHook:
    """A store with version 1 of digits."""
    one = prepare_version(config=CONFIG)
    manifest = one.manifest.model_copy(update={"config_sha256": config_sha256(from_pbtxt(CONFIG.decode()))})
    ModelRegistry(store).publish(manifest, one.sources, one.golden)
    return store


def test_published_version_is_as_published(published: ModelStoreHook) -> None:
    """Nothing is found in a version that nobody touched."""
    assert verify_version(published, "digits", 1) == []


CHANGES: dict[str, tuple[Callable[[ModelStoreHook], None], str, str]] = {
    "changed": (
        lambda store: store.write(f"{ROOT}repository/digits/1/model.onnx", b"an onnx modeL"),
        "repository/digits/1/model.onnx",
        "13 bytes, SHA-256",
    ),
    "missing": (
        lambda store: store.delete(f"{ROOT}repository/digits/1/model.onnx"),
        "repository/digits/1/model.onnx",
        "no object",
    ),
    "extra": (
        lambda store: store.write(f"{ROOT}repository/digits/1/extra.bin", b"12345"),
        "repository/digits/1/extra.bin",
        "5 bytes",
    ),
    "beside the repository": (
        lambda store: store.write(f"{ROOT}notes.txt", b"1234"),
        "notes.txt",
        "4 bytes",
    ),
    "attachment": (
        lambda store: store.write(f"{ROOT}golden.npz", b"another gold"),
        "golden.npz",
        "12 bytes, SHA-256",
    ),
    "manifest": (lambda store: store.write(f"{ROOT}manifest.json", b"{}"), "manifest.json", "not a manifest"),
    "golden set": (lambda store: store.delete(f"{ROOT}golden.npz"), "golden.npz", "no object"),
}


@pytest.mark.parametrize(("change", "path", "found"), CHANGES.values(), ids=CHANGES)
def test_difference_is_named(
    published: ModelStoreHook, change: Callable[[ModelStoreHook], None], path: str, found: str
) -> None:
    """A file that was changed, removed or added is the one thing found, by its key, with what is there."""
    change(published)
    (finding,) = verify_version(published, "digits", 1)
    assert finding.key == ROOT + path
    assert found in finding.found
    assert ROOT + path in str(finding)


def test_evidence_is_no_addition(published: ModelStoreHook) -> None:
    """What releases write beside the version is no part of it."""
    published.write(f"{ROOT}evidence/digits-1/validation.json", b"{}")
    assert verify_version(published, "digits", 1) == []


def test_configurations_of_an_ensemble_are_read_together(
    store: ModelStoreHook, prepare_version: Callable[..., Publication]
) -> None:
    """The canonical hash of several models is that of all of them; a version as it was published has no finding."""
    one, other = prepare_version(config=CONFIG), b'name: "scale"'
    configs = {name: from_pbtxt(text.decode()) for name, text in (("digits", CONFIG), ("scale", other))}
    manifest = one.manifest.model_copy(
        update={
            "files": {**one.manifest.files, "scale/config.pbtxt": FileEntry.of(other)},
            "config_sha256": bundle_config_sha256(configs),
        }
    )
    ModelRegistry(store).publish(manifest, {**one.sources, "scale/config.pbtxt": other}, one.golden)
    assert verify_version(store, "digits", 1) == []


def test_files_are_read_side_by_side(
    store: ModelStoreHook, prepare_version: Callable[..., Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file waits for the one before: six meet each other under way."""
    one = prepare_version(config=CONFIG, weight_files=3)
    manifest = one.manifest.model_copy(update={"config_sha256": config_sha256(from_pbtxt(CONFIG.decode()))})
    ModelRegistry(store).publish(manifest, one.sources, one.golden)
    meeting, read = threading.Barrier(6, timeout=60), ModelStoreHook.sha256

    def meet(self: ModelStoreHook, *arguments: Any) -> tuple[str, int]:
        meeting.wait()
        return read(self, *arguments)

    monkeypatch.setattr(ModelStoreHook, "sha256", meet)
    assert verify_version(store, "digits", 1, workers=6) == []


@pytest.mark.parametrize("read", [True, False])
def test_file_without_a_digest_is_read_or_told(
    published: ModelStoreHook, monkeypatch: pytest.MonkeyPatch, read: bool
) -> None:
    """Of a large file the store keeps no digest of the whole: it is read, or its size is compared and that is said."""
    stat = ModelStoreHook.stat

    def without_digest(self: ModelStoreHook, key: str) -> ObjectFacts | None:
        facts = stat(self, key)
        return None if facts is None else replace(facts, sha256=None)

    monkeypatch.setattr(ModelStoreHook, "stat", without_digest)
    model = f"{ROOT}repository/digits/1/model.onnx"
    unread = require_published_repository(published, "digits", 1, None, read=read)
    assert unread == (() if read else (model, f"{ROOT}repository/digits/config.pbtxt"))
    published.write(model, b"an onnx modeL")
    if read:
        with pytest.raises(VersionConflictError, match=r"is not what was published.*1/model\.onnx"):
            require_published_repository(published, "digits", 1, None)
    published.write(model, b"longer than it was")
    with pytest.raises(VersionConflictError, match="18 bytes"):
        require_published_repository(published, "digits", 1, None, read=read)


def test_configuration_that_means_something_else(
    store: ModelStoreHook, prepare_version: Callable[..., Publication]
) -> None:
    """A configuration whose canonical hash is not the manifest's is found although its bytes are the manifest's."""
    one = prepare_version(config=CONFIG)  # its manifest says another hash
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    (finding,) = verify_version(store, "digits", 1)
    assert finding.key.endswith("config.pbtxt")
    assert "canonical hash" in finding.found


def test_missing_signature_is_found(published: ModelStoreHook, tmp_path: Path) -> None:
    """Where a signature is demanded its absence is a difference like any other."""
    (finding,) = verify_version(published, "digits", 1, key_of(tmp_path))
    assert finding.key == f"{ROOT}model.sig"


def test_manifest_under_another_number(published: ModelStoreHook) -> None:
    """A manifest that speaks of another version than the one whose place it has is no manifest of this one."""
    published.write(f"{ROOT.replace('1', '2')}manifest.json", published.read(f"{ROOT}manifest.json") or b"")
    (finding,) = verify_version(published, "digits", 2)
    assert finding.found == "digits version 1"


def test_unreadable_is_no_difference(cut_off_store: ModelStoreHook) -> None:
    """A store that does not answer is an error and no finding."""
    with pytest.raises(StoreUnavailableError):
        verify_version(cut_off_store, "digits", 1)


def test_version_that_was_never_published(store: ModelStoreHook) -> None:
    """There is nothing to verify where nothing was published."""
    with pytest.raises(InputMissingError, match="version 1 of 'digits' is not published"):
        verify_version(store, "digits", 1)


def test_program_demands_the_signature_that_the_release_file_names(
    published: ModelStoreHook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key is the release file's; a model that has none any more is verified without."""
    where = ["digits", "1", "--bucket", published.bucket, "--releases", str(tmp_path)]
    assert __main__.main(where) == 0
    key_of(tmp_path)
    signing = f"publish: {{signing: {{private_key_file: {tmp_path}/key.pem}}}}"
    (tmp_path / "digits.yaml").write_text(f"model: digits\nsource: {{format: onnx}}\n{signing}\n")
    assert __main__.main(where) == 1
    assert f"{ROOT}model.sig: expected a signature" in capsys.readouterr().out


def test_program(published: ModelStoreHook, capsys: pytest.CaptureFixture[str]) -> None:
    """The program's exit code and lines say what was found: 0 nothing, 1 differences, 2 it could not be told."""
    where = ["--bucket", published.bucket]
    assert __main__.main(["digits", "1", *where]) == 0
    published.delete(f"{ROOT}golden.npz")
    assert __main__.main(["digits", "1", *where]) == 1
    assert f"{ROOT}golden.npz: expected 12 bytes" in capsys.readouterr().out
    assert __main__.main(["digits", "7", *where]) == 2
    assert "version 7 of 'digits' is not published" in capsys.readouterr().err
