"""Signing keys that tests make for themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from slipway.registry.signing import SigningKey, load_signing_key
from slipway_core.spec.release_file import Signing


def pem(key: Any, passphrase: bytes | None = None) -> bytes:
    """A private key as PEM."""
    lock = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock))


def new_key() -> SigningKey:
    """A key of its own, both halves."""
    private = ec.generate_private_key(ec.SECP256R1())
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return SigningKey(public_pem=public, private_pem=pem(private))


def key_of(folder: Path, curve: ec.EllipticCurve | None = None, name: str = "key") -> SigningKey:
    """A new key, read from a file as a release names it."""
    path = folder / f"{name}.pem"
    path.write_bytes(pem(ec.generate_private_key(curve or ec.SECP256R1())))
    return load_signing_key(Signing(private_key_file=str(path)))
