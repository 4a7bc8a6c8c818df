"""The file by which Kubernetes clients find the emulator and log in."""

from __future__ import annotations

from pathlib import Path

import yaml

from include.sandbox.host.files import replace_file


def write_kubeconfig(path: Path, url: str, token: str, *, namespace: str = "default") -> None:
    """Write a kubeconfig for the API server at `url`, readable by its owner alone, in one step.

    :raises OSError: the file cannot be written.
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
    replace_file(path, yaml.safe_dump(content, sort_keys=False), private=True)
