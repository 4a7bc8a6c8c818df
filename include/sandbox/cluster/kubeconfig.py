"""The file by which Kubernetes clients find the emulator and log in."""

from __future__ import annotations

import os
from pathlib import Path

import yaml


def write_kubeconfig(path: Path, url: str, token: str, *, namespace: str = "default") -> None:
    """Writes a kubeconfig for the API server at `url`, readable by its owner alone, in one step.

    Raises OSError when the file cannot be written.
    """
    name = "slipway-sandbox"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(content, file, sort_keys=False)
    os.replace(fresh, path)
