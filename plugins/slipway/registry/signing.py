"""OpenSSF model signing of a published version and its manifest, with an elliptic-curve key.

The standard signs a list of files with their SHA-256. The manifest has that list, so nothing is read to sign or to
verify; the standard's own verifier accepts the signature for a downloaded copy of the version's ``repository/``. What
is signed beside the files is in `include/slipway_core/publishing/signed_statement.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)

from airflow_provider_triton.connection_fields import extra_of
from slipway_core.errors import SignedWithoutIdentityError, SigningRefusedError, UserError
from slipway_core.publishing.manifest import Manifest
from slipway_core.publishing.signed_statement import (
    covers_manifest,
    manifest_property,
    statement_differences,
    subject_name,
)
from slipway_core.spec.release_file import ReleaseSpec, Signing
from slipway_rules.signature import HASH_OF_CURVE, MANIFEST_PROPERTY, signed_payload

if TYPE_CHECKING:
    from model_signing._signing.signing import Payload

_SHOWN = 5
_REMEDY = "put a PEM key there, for example from `openssl ecparam -name prime256v1 -genkey -noout`"


@dataclass(frozen=True)
class SigningKey:
    """A key as PEM. `private_pem` is None for who only verifies; it is without a passphrase and never shown.

    `accepted` are further public keys whose signatures hold.
    """

    public_pem: bytes
    private_pem: bytes | None = field(default=None, repr=False)
    accepted: tuple[bytes, ...] = ()


def signing_key_of(spec: ReleaseSpec) -> SigningKey | None:
    """Return the key that a release file demands; None: it demands no signature.

    :raises UserError: one is not there, or is no elliptic-curve key.
    """
    signing = spec.publish.signing
    return None if signing is None else load_signing_key(signing)


def load_signing_key(signing: Signing) -> SigningKey:
    """Return the key that a release file names, with those that it accepts beside it.

    :raises UserError: one is not there, or is no elliptic-curve key.
    """
    accepted = tuple(_accepted(text, place) for place, text in enumerate(signing.verify_keys, 1))
    return replace(_own_key(signing), accepted=accepted)


def _own_key(signing: Signing) -> SigningKey:
    if signing.connection is not None:
        return _key_of_connection(signing.connection)
    private = None if signing.private_key_file is None else _read(signing.private_key_file)
    public = None if signing.public_key_file is None else _read(signing.public_key_file)
    return _key(private, None, public, signing.private_key_file or str(signing.public_key_file))


def _accepted(text: str, place: int) -> bytes:
    """Return a public key that stands in the release file, or in the file that it names."""
    is_path = text.startswith("/")
    where = text if is_path else f"number {place} of `publish.signing.verify_keys`"
    return _key(None, None, _read(text) if is_path else text.encode(), where).public_pem


def sign(manifest: Manifest, key: SigningKey) -> bytes:
    """Return the signature of the version's files and of its manifest: a Sigstore bundle, as JSON.

    :param manifest: with every attachment but the signature.
    :raises UserError: the key has no private half.
    """
    if key.private_pem is None:
        raise UserError(
            "the version cannot be signed: this worker has only the public key",
            expected="the private key, under `publish.signing`",
            found="a public key",
            remedy="give the workers that publish the private key",
        )
    from model_signing._signing.sign_ec_key import Signer

    payload = _payload(manifest)
    payload.statement.pb.predicate[MANIFEST_PROPERTY] = manifest_property(manifest.to_bytes())
    with TemporaryDirectory(prefix="slipway-sign-") as folder:  # readable by its owner alone
        private, signature = Path(folder, "key.pem"), Path(folder, "model.sig")
        private.write_bytes(key.private_pem)
        Signer(private).sign(payload).write(signature)
        return signature.read_bytes()


def require_signature(document: bytes, signature: bytes, key: SigningKey) -> None:
    """Require that the signature is of exactly this manifest and its files, by the key or one accepted beside it.

    :param document: the manifest as it lies in the bucket.
    :raises SigningRefusedError: it is not.
    :raises SignedWithoutIdentityError: it is of the files, and says nothing of the manifest.
    """
    manifest = Manifest.from_bytes(document)
    pems = (key.public_pem, *key.accepted)
    payload = signed_payload(signature, lambda made, signed: is_signature(made, signed, pems))
    troubles = ["no signature of these keys"] if payload is None else _first(payload, document)
    if troubles:
        names = "the key that the release file names" + (
            ", or one of its `verify_keys`" if key.accepted else ""
        )
        raise SigningRefusedError(
            f"the signature of version {manifest.version} of {manifest.model!r} is invalid",
            expected=f"the signature of this manifest and these files with {names}",
            found="; ".join(troubles),
            remedy="find out who published the version; release the model under a new version. If it was signed "
            "with a key that has been replaced, put that key's public half under `publish.signing.verify_keys`",
        )
    if payload is not None and not covers_manifest(payload):
        raise SignedWithoutIdentityError(
            f"the signature of version {manifest.version} of {manifest.model!r} covers only its files",
            expected="a signature that covers the manifest too, which says whose files they are",
            found="a signature from before manifests were signed",
            remedy="publish the model under a new version, which is then signed with its manifest",
        )


def is_signature(made: bytes, signed: bytes, public_pems: Iterable[bytes]) -> bool:
    """Tell whether one of the keys has made a signature of these bytes.

    :param public_pems: elliptic-curve keys on the curves of the standard.
    """
    return any(_is_made_by(pem, made, signed) for pem in public_pems)


def _is_made_by(public_pem: bytes, made: bytes, signed: bytes) -> bool:
    public = serialization.load_pem_public_key(public_pem)
    if not isinstance(public, EllipticCurvePublicKey) or public.curve.name not in HASH_OF_CURVE:
        return False
    try:
        public.verify(made, signed, ECDSA(getattr(hashes, HASH_OF_CURVE[public.curve.name])()))
    except InvalidSignature:
        return False
    return True


def _first(payload: bytes, document: bytes) -> list[str]:
    """Return what differs, shortened."""
    found = list(islice(statement_differences(payload, document), _SHOWN + 1))
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], "and more"]


def _payload(manifest: Manifest) -> Payload:
    """Return the standard's statement of the version's files, whose digests are known already: nothing is read."""
    from model_signing import manifest as standard
    from model_signing._hashing.hashing import Digest
    from model_signing._signing.signing import Payload

    files = [
        standard.FileManifestItem(
            path=PurePosixPath(path), digest=Digest("sha256", bytes.fromhex(entry.sha256))
        )
        for path, entry in manifest.files.items()
    ]
    how = standard.SerializationType.from_args(
        {"method": "files", "hash_type": "sha256", "allow_symlinks": False}
    )
    return Payload(standard.Manifest(subject_name(manifest), files, how))


def _key_of_connection(name: str) -> SigningKey:
    try:
        connection = BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise UserError(
            f"the signing key's connection {name!r} is missing",
            expected="an Airflow connection whose password is the private key, as PEM",
            found="none",
            remedy=f"create the connection {name!r}, or correct `publish.signing` in the release file",
        ) from error
    try:
        public = extra_of(connection).get("public_key")
    except ValueError as error:
        raise UserError(
            f"the signing key's connection {name!r} cannot be used",
            expected="a JSON object as its extra",
            found=str(error),
            remedy="correct the connection",
        ) from None
    private = connection.password or None
    return _key(
        None if private is None else _pem(private),
        (connection.login or "").encode() or None,
        None if public is None else _pem(public),
        f"the connection {name!r}",
    )


def _pem(text: str) -> bytes:
    # In a URI or an environment variable a key's line ends are often written as two characters.
    return text.replace("\\n", "\n").encode()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(
            f"the signing key {path} cannot be read",
            expected="a PEM file",
            found=error.strerror or type(error).__name__,
            remedy=_REMEDY,
        ) from error


def _key(private: bytes | None, passphrase: bytes | None, public: bytes | None, where: str) -> SigningKey:
    """Return the key with both halves as far as they are there; an error describes what is wrong without quoting it."""
    try:
        if private is not None:
            loaded = serialization.load_pem_private_key(private, passphrase)
            _require_curve(loaded, EllipticCurvePrivateKey)
            private = loaded.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            if public is None:
                public = loaded.public_key().public_bytes(
                    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
                )
        if public is None:
            raise ValueError("no key")
        _require_curve(serialization.load_pem_public_key(public), EllipticCurvePublicKey)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UserError(
            f"the signing key in {where} cannot be used",
            expected=f"an elliptic-curve key as PEM, on one of {', '.join(HASH_OF_CURVE)}",
            found=type(error).__name__,
            remedy=_REMEDY,
        ) from None
    return SigningKey(public_pem=public, private_pem=private)


def _require_curve(key: Any, kind: type[EllipticCurvePrivateKey] | type[EllipticCurvePublicKey]) -> None:
    if not isinstance(key, kind) or key.curve.name not in HASH_OF_CURVE:
        raise ValueError("another kind of key")
