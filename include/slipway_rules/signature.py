"""The signature of a version: the envelope that holds it, and what it says.

A Sigstore bundle holds a DSSE envelope, which holds the payload and the signature of it. Nothing of the payload is
looked at before the signature holds. Who has the keys checks it: that needs a library.
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md

The payload is OpenSSF's statement of the files of `repository/`. A property beside them, which the standard's own
verifier passes over, names the manifest and the digest of what it holds, the entry of the signature itself left out: so
the manifest can name the signature and is signed all the same.
https://github.com/ossf/model-signing-spec
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from slipway_rules.version_manifest import MANIFEST_FILE

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
MANIFEST_PROPERTY = "slipway_manifest"

HASH_OF_CURVE = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}
"""The elliptic curves that the standard's bundles can name, and what each is used with."""


def signed_payload(bundle: bytes, is_signature: Callable[[bytes, bytes], bool]) -> bytes | None:
    """Return the payload, if one of the keys has signed it; None otherwise, and for what is not a bundle.

    :param is_signature: tells of a signature and of bytes whether one of the keys has signed exactly these.
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
    return payload if is_signature(signature, signed) else None


def statement_of(payload: bytes) -> Mapping[str, Any]:
    """Return the statement that a payload holds, whose signature holds; empty if it is invalid."""
    try:
        statement = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return statement if isinstance(statement, dict) else {}


def is_of_a_model(statement: Mapping[str, Any]) -> bool:
    """Return whether it is a statement of a model's files."""
    return (statement.get("_type"), statement.get("predicateType")) == (STATEMENT_TYPE, PREDICATE_TYPE)


def manifest_property(model: str, version: int, signed_digest: str) -> dict[str, str]:
    """Return what a statement says of a version's manifest.

    :param signed_digest: what `version_manifest.signed_digest` makes of it.
    """
    name = f"models/{model}/{version}/{MANIFEST_FILE}"
    return {"name": name, "algorithm": "sha256", "digest": signed_digest}
