"""Certificates and keys of one cluster: made anew for each start, for loopback and what else it is given."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

_VALID = timedelta(days=2)


@dataclass(frozen=True)
class Certificates:
    """Files of one authority, of the one certificate with which everything serves, and of the tokens' key."""

    authority: Path
    certificate: Path
    key: Path
    token_key: Path


def make_certificates(folder: Path, addresses: Sequence[str] = ()) -> Certificates:
    """Return new certificates, written to the folder.

    :param addresses: at which the API is served beside loopback.
    """
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    made = Certificates(
        folder / "authority.crt", folder / "tls.crt", folder / "tls.key", folder / "service-accounts.key"
    )
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = _name("slipway-conformance")
    authority = (
        _builder(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(True, False, False, False, False, True, True, False, False), critical=True
        )
        .sign(authority_key, hashes.SHA256())
    )
    served = (x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", *addresses))
    names = [*served, x509.DNSName("localhost")]
    server = (
        _builder(_name("127.0.0.1"), authority_name, server_key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(_pem(server_key))
    made.token_key.write_bytes(_pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)))
    return made


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
