"""What was signed is of this model and this version: a copy under another name or number does not pass."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.s3_transfer import OversizedError, read_whole
from slipway.registry import signing as signing_module
from slipway.registry.publisher import read_decision
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import SigningKey, sign
from slipway.registry.verification import require_published_repository, verify_version
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import (
    ModelInvalidError,
    SignedWithoutIdentityError,
    SigningRefusedError,
    SlipwayError,
    UserError,
    VersionConflictError,
)
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_rules.text_forms import canonical_json
from slipway_rules.version_manifest import MANIFEST_LIMIT_BYTES
from tests.support.store.publication import Publication
from tests.support.store.signing_keys import key_of

CONFIG = b'name: "digits"'
Prepare = Callable[..., Publication]


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    """The key with which versions are signed."""
    return key_of(tmp_path)


def publish(store: ModelStoreHook, prepare: Prepare, key: SigningKey | None, **changes: Any) -> Manifest:
    """Publish a version of digits; return its manifest."""
    one = prepare(config=CONFIG, **changes)
    manifest = one.manifest.model_copy(update={"config_sha256": config_sha256(from_pbtxt(CONFIG.decode()))})
    how = None if key is None else partial(sign, key=key)
    ModelRegistry(store).publish(manifest, one.sources, one.golden, sign=how)
    return ModelRegistry(store).require("digits", one.manifest.version)


@pytest.fixture
def signed(store: ModelStoreHook, prepare_version: Prepare, key: SigningKey) -> ModelStoreHook:
    """A store with a signed version 3 of digits, as good as it was published."""
    publish(store, prepare_version, key, version=3)
    assert verify_version(store, "digits", 3, key) == []
    require_published_repository(store, "digits", 3, key)
    return store


def copy(store: ModelStoreHook, model: str, version: int) -> None:
    """Copy all of digits/3 to another version's place."""
    for entry in store.entries("models/digits/3/"):
        store.copy(entry.key, entry.key.replace("models/digits/3/", f"models/{model}/{version}/", 1))


def rewritten(store: ModelStoreHook, key: str, **changes: Any) -> None:
    """Write a manifest again with other fields, its signature untouched."""
    store.write(key, canonical_json(json.loads(store.read(key) or b"") | changes))


ELSEWHERE = [("digits", 9), ("fraud", 4)]
elsewhere = pytest.mark.parametrize(("model", "version"), ELSEWHERE)


@elsewhere
def test_signed_version_copied_elsewhere_is_refused(
    signed: ModelStoreHook, key: SigningKey, model: str, version: int
) -> None:
    """A signed version does not become another model's or version's by being copied there, with a key or without."""
    copy(signed, model, version)
    for demanded in (key, None):
        with pytest.raises(VersionConflictError, match="digits version 3"):
            require_published_repository(signed, model, version, demanded)
        (finding,) = verify_version(signed, model, version, demanded)
        assert (finding.expected, finding.found) == (f"{model} version {version}", "digits version 3")
    with pytest.raises(VersionConflictError, match="another version"):
        ModelRegistry(signed).require(model, version)
    with pytest.raises(VersionConflictError, match="another version"):
        read_decision(signed, repository_paths(model, version))


@elsewhere
def test_copy_whose_manifest_was_renamed_is_refused(
    signed: ModelStoreHook, key: SigningKey, model: str, version: int
) -> None:
    """Nor by a manifest that says another name or number, since its files do not lie where that one's would."""
    copy(signed, model, version)
    rewritten(signed, f"models/{model}/{version}/manifest.json", model=model, version=version)
    with pytest.raises(VersionConflictError, match="do not belong"):
        require_published_repository(signed, model, version, key)


@elsewhere
def test_copy_that_was_renamed_throughout_is_refused(
    signed: ModelStoreHook, key: SigningKey, model: str, version: int
) -> None:
    """Nor with the files moved to where they would lie: neither their paths nor the manifest are the signed ones."""
    copy(signed, model, version)
    root = f"models/{model}/{version}/"
    manifest = json.loads(signed.read(f"{root}manifest.json") or b"")
    files = {}
    for path, entry in manifest["files"].items():
        moved = path.replace("digits/3/", f"{model}/{version}/").replace("digits/config", f"{model}/config")
        signed.copy(f"{root}repository/{path}", f"{root}repository/{moved}")
        if moved != path:
            signed.delete(f"{root}repository/{path}")
        files[moved] = entry
    rewritten(signed, f"{root}manifest.json", model=model, version=version, files=files)
    with pytest.raises(SigningRefusedError, match="not signed"):
        require_published_repository(signed, model, version, key)


@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"accuracy": 0.999, "files": {}}},
        {"engines": [{"gpu": "H100", "compute_capability": "9.0", "tensorrt": "10.1"}]},
        {"created_at": "2027-01-01T00:00:00Z"},
        {"tools": {"onnx": "1.0"}},
    ],
)
def test_changed_manifest_is_refused(
    signed: ModelStoreHook, key: SigningKey, changes: dict[str, Any]
) -> None:
    """What a manifest says (accuracy, an engine's machine, times, tools) is signed as the files are."""
    rewritten(signed, "models/digits/3/manifest.json", **changes)
    with pytest.raises(SigningRefusedError, match="another manifest was signed"):
        require_published_repository(signed, "digits", 3, key)
    findings = verify_version(signed, "digits", 3, key)
    assert [finding.found for finding in findings] == ["another manifest was signed"]


def test_changed_attachment_is_refused(signed: ModelStoreHook, key: SigningKey) -> None:
    """The golden set beside the repository cannot be replaced by a kinder one, whatever the manifest then says."""
    kinder = b"a kinder set"
    manifest = ModelRegistry(signed).require("digits", 3)
    entries = {name: entry.model_dump() for name, entry in manifest.attachments.items()}
    entries["golden.npz"] = FileEntry.of(kinder).model_dump()
    signed.write("models/digits/3/golden.npz", kinder)
    rewritten(signed, "models/digits/3/manifest.json", attachments=entries)
    with pytest.raises(SigningRefusedError, match="another manifest was signed"):
        ModelRegistry(signed).require_signed(ModelRegistry(signed).require("digits", 3), key)


def test_manifest_that_changes_while_it_is_read_is_refused(signed: ModelStoreHook, key: SigningKey) -> None:
    """The signature is of the manifest that the caller has, not of one that was put in its place meanwhile."""
    manifest = ModelRegistry(signed).require("digits", 3)
    rewritten(signed, "models/digits/3/manifest.json", tools={"onnx": "1.0"})
    with pytest.raises(VersionConflictError, match="was changed after it was read"):
        ModelRegistry(signed).require_signed(manifest, key)


@contextmanager
def files_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Signatures as they were before they covered the manifest."""
    with monkeypatch.context() as before:
        before.setattr(signing_module, "MANIFEST_PROPERTY", "something_else")
        yield


@pytest.fixture
def older(
    store: ModelStoreHook, prepare_version: Prepare, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> ModelStoreHook:
    """A store whose version 1 was signed before signatures covered the manifest."""
    with files_alone(monkeypatch):
        publish(store, prepare_version, key)
    return store


def test_signature_without_identity_is_told_apart(older: ModelStoreHook, key: SigningKey) -> None:
    """A version of an older project is refused by an error of its own, with what to do, and only if its files hold."""
    with pytest.raises(SignedWithoutIdentityError, match="publish the model under a new version"):
        require_published_repository(older, "digits", 1, key)
    (finding,) = verify_version(older, "digits", 1, key)
    assert finding.key == "models/digits/1/model.sig"
    older.write("models/digits/1/repository/digits/1/model.onnx", b"something else")
    with pytest.raises(SigningRefusedError, match="is not what was signed"):
        require_published_repository(older, "digits", 1, key)


def test_signature_without_identity_of_another_key_is_no_such(older: ModelStoreHook, tmp_path: Path) -> None:
    """Whoever signs the files alone with a key of their own is refused as every other stranger."""
    with pytest.raises(SigningRefusedError, match="is invalid"):
        require_published_repository(older, "digits", 1, key_of(tmp_path, name="theirs"))


def test_envelope_of_two_readings_is_one(signed: ModelStoreHook, key: SigningKey) -> None:
    """A second envelope or signature in the bundle, and a payload of another type, change nothing or are refused."""
    document = signed.read("models/digits/3/manifest.json") or b""
    bundle = json.loads(signed.read("models/digits/3/model.sig") or b"")
    envelope = bundle["dsseEnvelope"]
    forged = base64.b64encode(b"{}").decode()
    refused = [
        {**bundle, "dsse_envelope": envelope, "dsseEnvelope": {**envelope, "payload": forged}},
        {**bundle, "dsseEnvelope": {**envelope, "payloadType": "text/plain"}},
        {**bundle, "dsseEnvelope": {**envelope, "signatures": envelope["signatures"] * 2}},
        {**bundle, "dsseEnvelope": {**envelope, "signatures": []}},
        {**bundle, "dsseEnvelope": {**envelope, "payload": envelope["payload"] + "\n*"}},
        {**bundle, "dsseEnvelope": [envelope]},
    ]
    signing_module.require_signature(document, json.dumps(bundle).encode(), key)
    for one in refused:
        with pytest.raises(SigningRefusedError, match="is invalid"):
            signing_module.require_signature(document, json.dumps(one).encode(), key)
    with pytest.raises(SigningRefusedError, match="is invalid"):
        signing_module.require_signature(document, b"[" * 200_000, key)


def test_large_manifest_is_not_read(signed: ModelStoreHook) -> None:
    """What is larger than a manifest may be is refused by its size, before a byte of it is read."""
    signed.write("models/digits/3/manifest.json", b" " * (MANIFEST_LIMIT_BYTES + 1))
    with pytest.raises(OversizedError):
        read_whole(signed.client, {"Bucket": signed.bucket, "Key": "models/digits/3/manifest.json"}, 10)
    with pytest.raises(UserError, match="is too large") as caught:
        ModelRegistry(signed).require("digits", 3)
    assert caught.value.found == f"{MANIFEST_LIMIT_BYTES + 1} bytes"


def test_large_attachment_in_a_small_ones_place_is_not_read(signed: ModelStoreHook) -> None:
    """A golden set that was replaced by something huge is refused by its size."""
    signed.write("models/digits/3/golden.npz", b" " * 2**21)
    with pytest.raises(UserError, match="is too large"):
        ModelRegistry(signed).golden_set(ModelRegistry(signed).require("digits", 3))


@pytest.mark.parametrize("config", [b"\xff\xfe", b'name: "digits\x00', b"#" * 300_000, b"input {" * 10_000])
def test_configuration_that_is_no_text_is_a_models_fault(
    store: ModelStoreHook, prepare_version: Prepare, config: bytes
) -> None:
    """A config.pbtxt that is not text, or that Triton could not read, is a typed error and a finding."""
    one = prepare_version(config=config)
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    manifest = ModelRegistry(store).require("digits", 1)
    with pytest.raises(SlipwayError):
        ModelRegistry(store).configs(manifest)
    (finding,) = verify_version(store, "digits", 1)
    assert finding.key.endswith("config.pbtxt")


def test_bytes_that_are_no_text_name_the_file(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """The error says which configuration it is and where it breaks off; outside of comments it is no Latin-1 either."""
    one = prepare_version(config=b"\xff\xfe")
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    with pytest.raises(ModelInvalidError, match=r"digits/config\.pbtxt cannot be read.*found 1:1"):
        ModelRegistry(store).configs(ModelRegistry(store).require("digits", 1))


def test_manifest_with_misplaced_files_is_not_published(
    store: ModelStoreHook, prepare_version: Prepare
) -> None:
    """Publishing refuses what reading would refuse, before anything is decided."""
    one = prepare_version()
    files = {**one.manifest.files, "digits/2/model.onnx": FileEntry.of(b"")}
    manifest = one.manifest.model_copy(update={"files": files})
    with pytest.raises(VersionConflictError, match="do not belong"):
        ModelRegistry(store).publish(manifest, {**one.sources, "digits/2/model.onnx": b""}, one.golden)
    assert store.entries("models/") == []
