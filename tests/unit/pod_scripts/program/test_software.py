"""The list of an image's software."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from slipway_pod.program.software import software_list, tool_versions, upload_software_list


class FakeStore:
    """Keeps the bytes of what was uploaded."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def upload(self, path: Path, url: str) -> dict[str, Any]:
        self.objects[url] = path.read_bytes()
        return {"size_bytes": path.stat().st_size, "sha256": "0" * 64}


def test_every_package_is_listed_once_in_order() -> None:
    """CycloneDX: name, version and package URL of each package, sorted."""
    listed = software_list()
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    purls = [entry["purl"] for entry in listed["components"]]
    assert purls == sorted(set(purls))
    assert f"pkg:pypi/numpy@{importlib.metadata.version('numpy')}" in purls


def test_the_list_lies_beside_the_result_and_in_it() -> None:
    """The file is uploaded, and named with size and digest after what was there; equal images give equal bytes."""
    store: Any = FakeStore()
    first: dict[str, Any] = {"files": [{"file": "model.onnx"}]}
    second: dict[str, Any] = {}
    upload_software_list(store, "s3://b/1", first)
    upload_software_list(store, "s3://b/2", second)
    assert [entry["file"] for entry in first["files"]] == ["model.onnx", "sbom.json"]
    assert second["files"] == first["files"][1:]
    assert store.objects["s3://b/1/sbom.json"] == store.objects["s3://b/2/sbom.json"]
    assert second["files"][0]["size_bytes"] == len(store.objects["s3://b/2/sbom.json"])


def test_versions_of_what_is_there() -> None:
    """A package that came without its metadata is left out."""
    found = tool_versions(["numpy", "no-such-package"])
    assert set(found) == {"python", "numpy"}
