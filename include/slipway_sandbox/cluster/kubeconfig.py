"""The file by which Kubernetes clients find the emulator and log in."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from slipway_sandbox.host.files import replace_file


def write_kubeconfig(path: Path, url: str, token: str, *, namespace: str = "default") -> None:
    """Write a kubeconfig for the API server at `url`, readable by its owner alone, in one step.

    :raises OSError: the file cannot be written.
    """
    name = "slipway-sandbox"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": _authority()}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
    }
    replace_file(path, yaml.safe_dump(content, sort_keys=False), private=True)


def _authority() -> str:
    """Return the certificate of an authority that signs nothing, since the emulator speaks plain HTTP.

    Kubernetes' clients make a TLS context for each connection all the same. Where no authority is named they load all
    of the machine's: 20 ms for each look at a pod.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "slipway-sandbox")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()
