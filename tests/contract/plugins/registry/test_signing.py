"""Model signing: the standard's own verifier accepts what we sign, and what is not signed so is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from model_signing.verifying import Config as StandardVerifier

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import SigningKey, load_signing_key, require_signature, sign
from slipway_core.errors import SigningRefusedError, UserError
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.spec.release_file import Signing
from tests.support.store.publication import Publication
from tests.support.store.signing_keys import key_of, pem

Prepare = Callable[..., Publication]


def download(store: ModelStoreHook, folder: Path) -> Path:
    """Copy the version's repository to a folder."""
    prefix = "models/digits/1/repository/"
    for entry in store.entries(prefix):
        path = folder / "copy" / entry.key.removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.read(entry.key) or b"")
    return folder / "copy"


def signed(store: ModelStoreHook, one: Publication, key: SigningKey | None) -> Manifest:
    """Publish, signed with the key; return the manifest that lies there."""
    registry = ModelRegistry(store)
    how = None if key is None else partial(sign, key=key)
    registry.publish(one.manifest, one.sources, one.golden, sign=how)
    return registry.require("digits", 1)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda one: one.name)
def test_the_standards_verifier_accepts_a_downloaded_copy(
    store: ModelStoreHook, prepare_version: Prepare, tmp_path: Path, curve: ec.EllipticCurve
) -> None:
    """What lies in the bucket, downloaded, is verified by OpenSSF's own library; a changed byte is refused by it."""
    key = key_of(tmp_path, curve)
    manifest = signed(store, prepare_version(weight_files=2), key)
    copy, signature, public = download(store, tmp_path), tmp_path / "model.sig", tmp_path / "public.pem"
    signature.write_bytes(store.read("models/digits/1/model.sig") or b"")
    public.write_bytes(key.public_pem)
    StandardVerifier().use_elliptic_key_verifier(public_key=public).verify(copy, signature)
    ModelRegistry(store).require_signed(manifest, key)
    (copy / "digits" / "1" / "model.onnx").write_bytes(b"tampered")
    with pytest.raises(ValueError, match=r"digits/1/model\.onnx"):
        StandardVerifier().use_elliptic_key_verifier(public_key=public).verify(copy, signature)


def test_the_standards_program_accepts_a_downloaded_copy(
    store: ModelStoreHook, prepare_version: Prepare, tmp_path: Path
) -> None:
    """`model_signing verify key` agrees."""
    key = key_of(tmp_path)
    signed(store, prepare_version(), key)
    copy, signature, public = download(store, tmp_path), tmp_path / "model.sig", tmp_path / "public.pem"
    signature.write_bytes(store.read("models/digits/1/model.sig") or b"")
    public.write_bytes(key.public_pem)
    command = [sys.executable, "-m", "model_signing", "verify", "key", str(copy)]
    options = ["--signature", str(signature), "--public_key", str(public)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout


def test_missing_signature_is_refused(
    store: ModelStoreHook, prepare_version: Prepare, tmp_path: Path
) -> None:
    """A version that was published without a signature is refused where a key is named."""
    manifest = signed(store, prepare_version(), None)
    with pytest.raises(SigningRefusedError, match="version 1 of 'digits' is not signed"):
        ModelRegistry(store).require_signed(manifest, key_of(tmp_path))


def test_another_key_is_refused(store: ModelStoreHook, prepare_version: Prepare, tmp_path: Path) -> None:
    """A signature with another key than the release file's is refused."""
    manifest = signed(store, prepare_version(), key_of(tmp_path, name="theirs"))
    with pytest.raises(SigningRefusedError, match="is invalid"):
        ModelRegistry(store).require_signed(manifest, key_of(tmp_path, name="ours"))


def test_signature_of_other_files_is_refused(prepare_version: Prepare, tmp_path: Path) -> None:
    """A signature that is right, but of other files than the manifest's, is refused and names them."""
    key, manifest = key_of(tmp_path), prepare_version().manifest
    files = {**manifest.files, "digits/1/model.onnx": FileEntry.of(b"another model")}
    changed = manifest.model_copy(update={"files": files})
    with pytest.raises(SigningRefusedError, match=r"digits/1/model\.onnx"):
        require_signature(changed.to_bytes(), sign(manifest, key), key)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", json.dumps({"mediaType": "x"}).encode()])
def test_what_is_no_signature_is_refused(prepare_version: Prepare, tmp_path: Path, content: bytes) -> None:
    """What is no bundle at all is refused like a wrong one."""
    with pytest.raises(SigningRefusedError, match="is invalid"):
        require_signature(prepare_version().manifest.to_bytes(), content, key_of(tmp_path))


def test_key_of_a_connection(
    prepare_version: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Airflow connection gives the key, with its passphrase; who only verifies needs the public half."""
    private = ec.generate_private_key(ec.SECP256R1())
    key = load_signing_key(Signing(private_key_file=str(written(tmp_path, pem(private)))))
    value = {
        "conn_type": "generic",
        "login": "open sesame",
        "password": pem(private, b"open sesame").decode(),
    }
    monkeypatch.setenv("AIRFLOW_CONN_SIGNING", json.dumps(value))
    manifest = prepare_version().manifest
    signature = sign(manifest, load_signing_key(Signing(connection="signing")))
    public = {"conn_type": "generic", "extra": {"public_key": key.public_pem.decode()}}
    monkeypatch.setenv("AIRFLOW_CONN_VERIFYING", json.dumps(public))
    verifier = load_signing_key(Signing(connection="verifying"))
    require_signature(manifest.to_bytes(), signature, verifier)
    with pytest.raises(UserError, match="only the public key"):
        sign(manifest, verifier)


@pytest.mark.parametrize("place", ["release file", "file"])
def test_key_that_was_replaced_is_accepted(
    store: ModelStoreHook, prepare_version: Prepare, tmp_path: Path, place: str
) -> None:
    """The new key signs; a version that the old one signed holds while its public half is among the accepted ones."""
    old, _ = key_of(tmp_path, name="old"), key_of(tmp_path, name="new")
    manifest = signed(store, prepare_version(), old)
    named = written(tmp_path, old.public_pem)
    accepted = old.public_pem.decode() if place == "release file" else str(named)
    private = str(tmp_path / "new.pem")
    key = load_signing_key(Signing(private_key_file=private, verify_keys=(accepted,)))
    ModelRegistry(store).require_signed(manifest, key)
    with pytest.raises(
        SigningRefusedError, match=r"put that key's public half under `publish\.signing\.verify_keys`"
    ):
        ModelRegistry(store).require_signed(manifest, load_signing_key(Signing(private_key_file=private)))
    require_signature(
        manifest.to_bytes(), sign(manifest, key), load_signing_key(Signing(private_key_file=private))
    )


def test_accepted_key_signs_no_other_files(prepare_version: Prepare, tmp_path: Path) -> None:
    """A signature of other files is refused whichever of the keys made it, and the files are named."""
    old, manifest = key_of(tmp_path, name="old"), prepare_version().manifest
    signature = sign(manifest, old)
    files = {**manifest.files, "digits/1/model.onnx": FileEntry.of(b"another model")}
    both = replace(key_of(tmp_path, name="new"), accepted=(old.public_pem,))
    with pytest.raises(SigningRefusedError, match=r"one of its `verify_keys`.*digits/1/model\.onnx"):
        require_signature(manifest.model_copy(update={"files": files}).to_bytes(), signature, both)


def test_accepted_key_that_is_none_is_named_and_not_quoted(tmp_path: Path) -> None:
    """A private key among the accepted ones is told by its place alone."""
    key_of(tmp_path)
    secret = pem(ec.generate_private_key(ec.SECP256R1())).decode()
    signing = Signing(private_key_file=str(tmp_path / "key.pem"), verify_keys=(secret,))
    with pytest.raises(UserError, match=r"number 1 of `publish\.signing\.verify_keys`") as caught:
        load_signing_key(signing)
    assert secret.splitlines()[1] not in str(caught.value)


def written(folder: Path, content: bytes) -> Path:
    """A file with this content."""
    path = folder / "written.pem"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n",
        pem(ec.generate_private_key(ec.SECP256K1())),
        pem(ed25519.Ed25519PrivateKey.generate()),
        pem(ec.generate_private_key(ec.SECP256R1()), b"a passphrase"),
    ],
    ids=["empty", "rubbish", "other curve", "other kind", "locked"],
)
def test_unusable_key_is_named_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    """A key that cannot be used is an error that names its place, and shows nothing of it."""
    path = written(tmp_path, content)
    with pytest.raises(UserError, match=str(path)) as caught:
        load_signing_key(Signing(private_key_file=str(path)))
    assert caught.value.__cause__ is None
    assert "c2VjcmV0" not in str(caught.value)
    assert "PRIVATE" not in repr(key_of(tmp_path))


def test_key_that_is_not_there(tmp_path: Path, connections: None) -> None:
    """A key file or connection that does not exist is named."""
    with pytest.raises(UserError, match=r"nowhere\.pem"):
        load_signing_key(Signing(private_key_file=str(tmp_path / "nowhere.pem")))
    with pytest.raises(UserError, match="no_such_key"):
        load_signing_key(Signing(connection="no_such_key"))
