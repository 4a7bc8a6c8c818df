"""The envelope of a signature: its payload, if one of the keys has signed exactly these bytes.

A Sigstore bundle holds a DSSE envelope, which holds the payload and the signature of it. Nothing of the payload is
looked at before the signature holds.
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from slipway_core.publishing.signed_statement import PAYLOAD_TYPE

_HASHES: dict[str, HashAlgorithm] = {"secp256r1": SHA256(), "secp384r1": SHA384(), "secp521r1": SHA512()}


def signed_payload(bundle: bytes, public_pems: Iterable[bytes]) -> bytes | None:
    """Return the payload, if one of the keys has signed it; None otherwise, and for what is not a bundle.

    :param public_pems: elliptic-curve keys on the curves of the standard.
    """
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
    return payload if any(_is_signed_by(pem, signature, signed) for pem in public_pems) else None


def _is_signed_by(public_pem: bytes, signature: bytes, signed: bytes) -> bool:
    public = load_pem_public_key(public_pem)
    if not isinstance(public, EllipticCurvePublicKey) or public.curve.name not in _HASHES:
        return False
    try:
        public.verify(signature, signed, ECDSA(_HASHES[public.curve.name]))
    except InvalidSignature:
        return False
    return True
