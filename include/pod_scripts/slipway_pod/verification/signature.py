"""The check that a trusted key has signed a version's manifest, as in `plugins/slipway/registry/signing.py`.

The envelope is read as in `plugins/slipway/registry/envelope.py`: a test holds the two alike.

The signature is a Sigstore bundle with a DSSE envelope. Nothing in it is looked at before one of the keys has signed
it.
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.verification.version_manifest import REMEDY, Manifest, Version
from slipway_rules.version_manifest import MANIFEST_FILE, SIGNATURE_FILE

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
MANIFEST_PROPERTY = "slipway_manifest"
CURVES = ("secp256r1", "secp384r1", "secp521r1")
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
        isinstance(key, EllipticCurvePublicKey) and key.curve.name in CURVES for key in keys
    ):
        what = f"{where} cannot be used to check signatures"
        expected = f"elliptic-curve public keys as PEM, on {', '.join(CURVES)}"
        remedy = "put there what `openssl ec -pubout` prints"
        raise PodError("UserError", what, expected=expected, found=f"{len(text)} bytes", remedy=remedy)
    return keys


def require_signed(version: Version, manifest: Manifest, bundle: bytes, keys: list[Any]) -> None:
    """Require that one of the keys has signed this manifest, and by it each file."""
    place = f"{version.root}/{SIGNATURE_FILE}"
    payload = signed_payload(bundle, keys)
    statement: Any = None if payload is None else _json(payload)
    if not isinstance(statement, dict) or not isinstance(statement.get("predicate"), dict):
        _refuse(place, "a signature of the keys that this pod was given", "none")
    kinds, predicate = (statement.get("_type"), statement.get("predicateType")), statement["predicate"]
    if kinds != (STATEMENT_TYPE, PREDICATE_TYPE):
        _refuse(place, "the signature of a model", "a signature of something else")
    if MANIFEST_PROPERTY not in predicate:
        what = f"{place} covers the version's files alone"
        expected = "a signature that covers the manifest too, which says whose files they are"
        remedy = "publish the model under a new version, which is then signed with its manifest"
        raise PodError("SignedWithoutIdentityError", what, expected=expected, remedy=remedy)
    name = f"models/{version.model}/{version.number}/{MANIFEST_FILE}"
    wanted = {"name": name, "algorithm": "sha256", "digest": manifest.signed_sha256}
    if predicate[MANIFEST_PROPERTY] != wanted:
        _refuse(place, f"a signature of the manifest of {version}", "another manifest was signed")


def signed_payload(bundle: bytes, keys: list[Any]) -> bytes | None:
    """Return the payload, if one of the keys has signed it; None otherwise, and for what is not a bundle."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512

    try:
        envelope = json.loads(bundle)["dsseEnvelope"]
        (one,) = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        signature = base64.b64decode(one["sig"], validate=True)
        if envelope["payloadType"] != PAYLOAD_TYPE:
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    signed = b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
    hashes = dict(zip(CURVES, (SHA256(), SHA384(), SHA512()), strict=True))
    for key in keys:
        try:
            key.verify(signature, signed, ECDSA(hashes[key.curve.name]))
        except InvalidSignature:
            continue
        return payload
    return None


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _refuse(place: str, expected: str, found: str) -> None:
    raise PodError(
        "SigningRefusedError", f"{place} does not hold", expected=expected, found=found, remedy=REMEDY
    )
