"""A signature's envelope: nothing of it holds but what a key has signed, for a worker as for a pod."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from slipway.registry import signing
from slipway_pod.errors import PodError
from slipway_pod.verification import signature as pod_side
from slipway_rules.signature import PAYLOAD_TYPE, is_of_a_model, signed_payload, statement_of

PAYLOAD = b'{"predicate": {}}'
CURVES: dict[str, tuple[ec.EllipticCurve, hashes.HashAlgorithm]] = {
    "P-256": (ec.SECP256R1(), hashes.SHA256()),
    "P-384": (ec.SECP384R1(), hashes.SHA384()),
    "P-521": (ec.SECP521R1(), hashes.SHA512()),
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@cache
def private_key(curve: str) -> ec.EllipticCurvePrivateKey:
    """A key on the curve, one for all tests."""
    return ec.generate_private_key(CURVES[curve][0])


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public half, as it lies in a file."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def envelope_of(curve: str = "P-256", payload: bytes = PAYLOAD, kind: str = PAYLOAD_TYPE) -> dict[str, Any]:
    """A DSSE envelope that the curve's key has signed."""
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
    raw = private_key(curve).sign(signed, ec.ECDSA(CURVES[curve][1]))
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": kind,
        "signatures": [{"sig": base64.b64encode(raw).decode()}],
    }


def verdict(bundle: bytes, *pems: bytes) -> bytes | None:
    """The payload that holds; each side has the keys in another form, and asks its library itself."""
    keys = pod_side.load_public_keys(b"".join(pems), "the keys")
    in_pod = signed_payload(bundle, lambda made, signed: pod_side.is_signature(made, signed, keys))
    in_worker = signed_payload(bundle, lambda made, signed: signing.is_signature(made, signed, pems))
    assert in_pod == in_worker
    return in_pod


def bundle_of(envelope: Any) -> bytes:
    """The bundle that holds an envelope."""
    return json.dumps({"dsseEnvelope": envelope}).encode()


@pytest.mark.parametrize("curve", CURVES)
def test_a_signature_on_each_curve_holds(curve: str) -> None:
    """The payload comes back when one of several keys has signed it."""
    pems = [public_pem(private_key(one)) for one in CURVES]
    assert verdict(bundle_of(envelope_of(curve)), *pems) == PAYLOAD


def test_another_keys_signature_does_not_hold() -> None:
    """A key that did not sign gives no payload."""
    stranger = public_pem(ec.generate_private_key(ec.SECP256R1()))
    assert verdict(bundle_of(envelope_of()), stranger) is None


CHANGES: dict[str, dict[str, Any]] = {
    "another payload": {"payload": base64.b64encode(b"another").decode()},
    "payload that is not base64": {"payload": "not base64!"},
    "no payload": {"payload": None},
    "another type": {"payloadType": "text/plain"},
    "no signature": {"signatures": []},
    "two signatures": {"signatures": [{"sig": "AAAA"}, {"sig": "AAAA"}]},
    "signature that is not DER": {"signatures": [{"sig": "AAAA"}]},
    "signature without bytes": {"signatures": [{}]},
    "signatures that are not a list": {"signatures": None},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_envelope_does_not_hold(name: str) -> None:
    """An envelope with one field changed gives no payload."""
    bundle = bundle_of({**envelope_of(), **CHANGES[name]})
    assert verdict(bundle, public_pem(private_key("P-256"))) is None


def test_another_kind_of_payload_does_not_hold() -> None:
    """A payload of another type is refused, even though the key has signed it."""
    assert verdict(bundle_of(envelope_of(kind="text/plain")), public_pem(private_key("P-256"))) is None


@given(st.binary(max_size=60) | JSON_VALUES.map(lambda value: json.dumps(value).encode()))
def test_what_is_no_bundle_does_not_hold(content: bytes) -> None:
    """Whatever the bytes are, nothing was signed."""
    assert verdict(content, public_pem(private_key("P-256"))) is None


@given(JSON_VALUES)
def test_what_is_no_envelope_does_not_hold(value: Any) -> None:
    """Whatever lies in the place of the envelope, nothing was signed."""
    assert verdict(bundle_of(value), public_pem(private_key("P-256"))) is None
    assert verdict(b"[" * 100_000, public_pem(private_key("P-256"))) is None


def test_a_key_of_another_kind_is_refused() -> None:
    """A curve that the standard does not name is a typed error, not a signature that fails."""
    with pytest.raises(PodError, match="cannot be used to check signatures"):
        pod_side.load_public_keys(public_pem(ec.generate_private_key(ec.SECP256K1())), "the keys")


@given(st.binary(max_size=60) | JSON_VALUES.map(lambda value: json.dumps(value).encode()))
def test_a_payload_that_is_no_statement_says_nothing(payload: bytes) -> None:
    """What a key has signed may still be anything."""
    assert not is_of_a_model(statement_of(payload))
    assert statement_of(b"[" * 100_000) == {}
