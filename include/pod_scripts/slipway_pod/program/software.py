"""The software of a pod's image: its Python packages as a CycloneDX document, and versions by name."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from slipway_pod.program.scratch import scratch_folder
from slipway_pod.storage.s3 import Store
from slipway_rules.pod_files import SBOM_FILE


def tool_versions(packages: Iterable[str]) -> dict[str, str]:
    """Python's version and those of packages; one that came without its metadata is left out."""
    found = {"python": platform.python_version()}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def upload_software_list(store: Store, destination: str, result: dict[str, Any]) -> None:
    """Put `sbom.json` beside the result and list it in `files`; equal images give equal bytes."""
    with scratch_folder("sbom-") as folder:
        path = folder / SBOM_FILE
        path.write_text(json.dumps(software_list(), indent=1, sort_keys=True))
        measured = store.upload(path, f"{destination}/{SBOM_FILE}")
    result.setdefault("files", []).append({"file": SBOM_FILE, **measured})


def software_list() -> dict[str, Any]:
    """Return the Python packages of this image as a CycloneDX 1.6 document, sorted by name."""
    components = {entry["purl"]: entry for entry in map(_component, importlib.metadata.distributions())}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": Path(sys.argv[0]).name}},
        "components": [components[purl] for purl in sorted(components)],
    }


def _component(package: importlib.metadata.Distribution) -> dict[str, Any]:
    name, version = package.metadata["Name"], package.version
    purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version.replace('+', '%2B')}"
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    about: Any = package.metadata
    expression, licence = about.get("License-Expression"), about.get("License")
    if expression:
        entry["licenses"] = [{"expression": expression}]
    elif licence and "\n" not in licence.strip():
        entry["licenses"] = [{"license": {"name": licence.strip()}}]
    return entry
