"""A CA of a test's own, with certificates for a server on loopback and for a client."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from slipway_sandbox.host.ports import LOOPBACK


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority.

    :param folder: where its files go.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        certificate = _builder(self._name, self._name, self._key.public_key()).add_extension(
            constraints, True
        )
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def issue(self, name: str) -> Issued:
        """Return a certificate for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK))])
        certificate = _builder(_name(name), self._name, key.public_key()).add_extension(address, False)
        issued = Issued(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        issued.certificate.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))
        plain = serialization.NoEncryption()
        pkcs8 = serialization.PrivateFormat.PKCS8
        issued.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
        return issued


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
