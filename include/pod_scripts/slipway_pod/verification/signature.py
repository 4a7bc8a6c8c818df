"""The check that a trusted key has signed a version's manifest.

Nothing in the signature is looked at before one of the keys has signed it.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from slipway_pod.errors import PodError
from slipway_pod.verification.version_manifest import REMEDY, Manifest, Version
from slipway_rules.signature import (
    HASH_OF_CURVE,
    MANIFEST_PROPERTY,
    is_of_a_model,
    manifest_property,
    signed_payload,
    statement_of,
)
from slipway_rules.version_manifest import SIGNATURE_FILE

PEM_BLOCK = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


def load_public_keys(text: bytes, where: str) -> list[Any]:
    """Return the public keys in a text of one or more PEM blocks.

    :raises PodError: the text has no key, or one of another kind.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        keys = [load_pem_public_key(block) for block in PEM_BLOCK.findall(text)]
    except (ValueError, UnsupportedAlgorithm):
        keys = []
    if not keys or not all(
        isinstance(key, EllipticCurvePublicKey) and key.curve.name in HASH_OF_CURVE for key in keys
    ):
        what = f"{where} cannot be used to check signatures"
        expected = f"elliptic-curve public keys as PEM, on {', '.join(HASH_OF_CURVE)}"
        remedy = "put there what `openssl ec -pubout` prints"
        raise PodError("UserError", what, expected=expected, found=f"{len(text)} bytes", remedy=remedy)
    return keys


def require_signed(version: Version, manifest: Manifest, bundle: bytes, keys: list[Any]) -> None:
    """Require that one of the keys has signed this manifest, and by it each file."""
    place = f"{version.root}/{SIGNATURE_FILE}"
    payload = signed_payload(bundle, lambda made, signed: is_signature(made, signed, keys))
    statement = {} if payload is None else statement_of(payload)
    predicate = statement.get("predicate")
    if not isinstance(predicate, dict):
        _refuse(place, "a signature of the keys that this pod was given", "none")
    if not is_of_a_model(statement):
        _refuse(place, "the signature of a model", "a signature of something else")
    if MANIFEST_PROPERTY not in predicate:
        what = f"{place} covers the version's files alone"
        expected = "a signature that covers the manifest too, which says whose files they are"
        remedy = "publish the model under a new version, which is then signed with its manifest"
        raise PodError("SignedWithoutIdentityError", what, expected=expected, remedy=remedy)
    wanted = manifest_property(version.model, version.number, manifest.signed_sha256)
    if predicate[MANIFEST_PROPERTY] != wanted:
        _refuse(place, f"a signature of the manifest of {version}", "another manifest was signed")


def is_signature(made: bytes, signed: bytes, keys: list[Any]) -> bool:
    """Return whether one of the keys has made a signature of these bytes."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    for key in keys:
        try:
            key.verify(made, signed, ECDSA(getattr(hashes, HASH_OF_CURVE[key.curve.name])()))
        except InvalidSignature:
            continue
        return True
    return False


def _refuse(place: str, expected: str, found: str) -> NoReturn:
    raise PodError(
        "SigningRefusedError", f"{place} is invalid", expected=expected, found=found, remedy=REMEDY
    )
