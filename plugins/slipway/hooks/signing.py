"""OpenSSF model signing of a published version, with an elliptic-curve key.

The standard signs a list of files with their SHA-256. The manifest has that list, so nothing is read to sign or to
verify; the standard's own verifier accepts the signature for a downloaded copy of the version's ``repository/``. It
covers those files and nothing else: not the manifest, which names the signature and so cannot be among what is signed.
https://github.com/ossf/model-signing-spec
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

from include.model_release.errors import SigningRefusedError, UserError
from include.model_release.manifest import Manifest
from include.model_release.spec import Signing

if TYPE_CHECKING:
    from model_signing.hashing import Config as HashingConfig

_CURVES = ("secp256r1", "secp384r1", "secp521r1")  # those that the standard's bundles can name
_REMEDY = "put a PEM key there, such as `openssl ecparam -name prime256v1 -genkey -noout` makes"


@dataclass(frozen=True)
class SigningKey:
    """A key as PEM. `private_pem` is None for who only verifies; it is without a passphrase and never shown.

    `accepted` are further public keys whose signatures hold.
    """

    public_pem: bytes
    private_pem: bytes | None = field(default=None, repr=False)
    accepted: tuple[bytes, ...] = ()


def load_signing_key(signing: Signing) -> SigningKey:
    """Reads the key that a release file names, and those that it accepts beside it.

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
    """A public key that stands in the release file, or in the file that it names."""
    is_path = text.startswith("/")
    where = text if is_path else f"number {place} of `publish.signing.verify_keys`"
    return _key(None, None, _read(text) if is_path else text.encode(), where).public_pem


def sign(manifest: Manifest, key: SigningKey) -> bytes:
    """The signature of the version's files: a Sigstore bundle, as JSON.

    :raises UserError: the key has no private half.
    """
    if key.private_pem is None:
        raise UserError(
            "the version cannot be signed: only the public key is here",
            expected="the private key, under `publish.signing`",
            found="a public key",
            remedy="give the workers that publish the private key",
        )
    from model_signing.signing import Config

    with TemporaryDirectory(prefix="slipway-sign-") as folder:  # readable by its owner alone
        private, signature = Path(folder, "key.pem"), Path(folder, "model.sig")
        private.write_bytes(key.private_pem)
        config = Config().set_hashing_config(_measured(manifest)).use_elliptic_key_signer(private_key=private)
        config.sign("repository", signature)
        return signature.read_bytes()


def require_signature(manifest: Manifest, signature: bytes, key: SigningKey) -> None:
    """Returns when the signature is of exactly the manifest's files, and the key's or one's that is accepted beside it.

    :raises SigningRefusedError: it is not.
    """
    troubles = []
    for public_pem in (key.public_pem, *key.accepted):
        trouble = _trouble(manifest, signature, public_pem)
        if trouble is None:
            return
        troubles.append(trouble)
    keys = "the key that the release file names" + (", or one of its `verify_keys`" if key.accepted else "")
    raise SigningRefusedError(
        f"the signature of version {manifest.version} of {manifest.model!r} does not hold",
        expected=f"the signature of these files with {keys}",
        found="; ".join(dict.fromkeys(troubles)),
        remedy="find out who published the version; release the model under a new version. If it was signed with a key "
        "that was replaced since, put that key's public half under `publish.signing.verify_keys`",
    )


def _trouble(manifest: Manifest, signature: bytes, public_pem: bytes) -> str | None:
    """Why the signature is not this key's of the manifest's files; None: it is."""
    from model_signing.verifying import Config

    with TemporaryDirectory(prefix="slipway-verify-") as folder:
        public, path = Path(folder, "key.pem"), Path(folder, "model.sig")
        public.write_bytes(public_pem)
        path.write_bytes(signature)
        config = Config().set_hashing_config(_measured(manifest)).use_elliptic_key_verifier(public_key=public)
        try:
            config.verify("repository", path)
        except (InvalidSignature, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            return str(error).strip() or type(error).__name__
    return None


def _measured(manifest: Manifest) -> HashingConfig:
    """The standard's way to the digests of a model's files, which here are known already."""
    from model_signing import manifest as standard
    from model_signing._hashing.hashing import Digest
    from model_signing.hashing import Config as HashingConfig

    files = [
        standard.FileManifestItem(
            path=PurePosixPath(path), digest=Digest("sha256", bytes.fromhex(entry.sha256))
        )
        for path, entry in manifest.files.items()
    ]
    how = standard.SerializationType.from_args(
        {"method": "files", "hash_type": "sha256", "allow_symlinks": False}
    )

    class Measured(HashingConfig):
        def hash(self, model_path: Any, *, files_to_hash: Any = None) -> standard.Manifest:
            return standard.Manifest(str(model_path), files, how)

    measured: HashingConfig = Measured()  # type: ignore[no-untyped-call]
    return measured


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
    public = connection.extra_dejson.get("public_key")
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
    """The key with both halves as far as they are there; what is wrong with it is told without quoting it."""
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
            expected=f"an elliptic-curve key as PEM, on one of {', '.join(_CURVES)}",
            found=type(error).__name__,
            remedy=_REMEDY,
        ) from None
    return SigningKey(public_pem=public, private_pem=private)


def _require_curve(key: Any, kind: type[EllipticCurvePrivateKey] | type[EllipticCurvePublicKey]) -> None:
    if not isinstance(key, kind) or key.curve.name not in _CURVES:
        raise ValueError("another kind of key")
