"""The manifests that the project gives its users, as they are, in a namespace of a test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.support.conformance.api import Object, documents

FOLDER = Path(__file__).resolve().parents[3] / "include" / "manifests"
# The namespace that they name; another one is put in its place.
_NAMESPACE = "models"
# An Envoy's own configuration, no object of a cluster.
_NO_OBJECTS = {"mirror-comparison/envoy.yaml"}


def manifest_files() -> list[Path]:
    """Return every file of objects."""
    files = sorted(FOLDER.rglob("*.yaml"))
    assert files
    return [path for path in files if path.relative_to(FOLDER).as_posix() not in _NO_OBJECTS]


def objects_of(path: Path, namespace: str) -> Iterator[Object]:
    """Yield the objects of a file; what it names `models` is another namespace here."""
    for one in documents(path):
        yield json.loads(json.dumps(one).replace(f'"{_NAMESPACE}"', f'"{namespace}"'))
