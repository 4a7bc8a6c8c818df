"""The Python packages of an image as a CycloneDX document, written by cyclonedx-bom from their own metadata."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Any

from slipway_infrastructure.images.engine import Engine

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
LIMIT_S = 600.0
# Runs in the image: prints the metadata of each package that its Python would import.
PRINT_METADATA = """
import importlib.metadata, json
found = {}
for package in importlib.metadata.distributions():
    text = package.read_text("METADATA")
    if text:
        found.setdefault(package.metadata["Name"].lower(), text)
print(json.dumps(found))
"""


class PackagesError(Exception):
    """The list of packages couldn't be made; the message says why."""


def provide_tool(folder: Path) -> Path:
    """Return the program cyclonedx-py of an environment with the pinned requirements; make it if it's missing.

    :param folder: where environments are kept; each set of requirements has its own.
    :raises PackagesError: they couldn't be installed.
    """
    pinned = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    home = folder / f"cyclonedx-{pinned}"
    program = home / "bin" / "cyclonedx-py"
    if not program.exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--no-deps",
            "-r",
            str(REQUIREMENTS),
        ]
        _run([str(home / "bin" / "python"), *install])
    return program


def list_packages(engine: Engine, tool: Path, reference: str) -> dict[str, Any]:
    """Return a CycloneDX document of an image's Python packages. Packages of the base's system are not in it.

    :raises EngineError: the image's Python could not be run.
    :raises PackagesError: the tool failed, or the image has no package.
    """
    found: dict[str, str] = json.loads(engine.output_of_python(reference, PRINT_METADATA))
    with tempfile.TemporaryDirectory(prefix="slipway-packages-") as scratch:
        home = Path(scratch) / "image"
        venv.create(home, with_pip=False)
        (site,) = home.glob("lib/python3*/site-packages")
        for name, text in found.items():
            folder = site / f"{re.sub('[^a-z0-9.]+', '_', name)}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(text, encoding="utf-8")
        target = Path(scratch) / "sbom.json"
        options = ["--output-reproducible", "--of", "JSON", "-o", str(target)]
        _run([str(tool), "environment", *options, str(home)])
        document: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    if len(document.get("components", ())) != len(found) or not found:
        listed = len(document.get("components", ()))
        raise PackagesError(f"{reference} has {len(found)} packages, and the document {listed}")
    return document


def of_image(document: dict[str, Any], name: str, digest: str) -> dict[str, Any]:
    """Return the document with the image as what it describes."""
    subject = {"type": "container", "bom-ref": f"{name}@{digest}", "name": name, "version": digest}
    return {**document, "metadata": {**document.get("metadata", {}), "component": subject}}


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackagesError(f"{words[0]}: {error}") from error
    if done.returncode != 0:
        end = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise PackagesError(f"{words[0]} ended with exit code {done.returncode}\n{end}")
