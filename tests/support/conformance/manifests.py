"""The manifests that the project gives its users, as they are, in a namespace of a test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.support.conformance.api import Object, documents

FOLDER = Path(__file__).resolve().parents[3] / "include" / "manifests"
# The namespaces that they name; another one is put in their place.
_NAMESPACES = ("models", "monitoring", "airflow")
# An Envoy's own configuration and lists for Kustomize: no objects of a cluster.
_NO_OBJECTS = {"envoy.yaml", "kustomization.yaml"}


def manifest_files() -> list[Path]:
    """Return every file of objects."""
    files = sorted(FOLDER.rglob("*.yaml"))
    assert files
    return [path for path in files if path.name not in _NO_OBJECTS]


def objects_of(path: Path, namespace: str) -> Iterator[Object]:
    """Yield the objects of a file; the namespaces that it names are another one here."""
    for one in documents(path):
        text = json.dumps(one)
        for name in _NAMESPACES:
            text = text.replace(f'"{name}"', f'"{namespace}"')
        yield json.loads(text)
