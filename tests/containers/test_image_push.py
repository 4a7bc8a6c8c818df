"""`make push-images` with a real engine and a real registry: what is written down is what the registry has."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway_infrastructure.images.__main__ import main
from slipway_infrastructure.manifests import IMAGES
from tests.support.conformance.build import BuildError
from tests.support.containers.bases import Bases
from tests.support.containers.engine import PIP_FILES, Engine
from tests.support.infrastructure.registry import Registry, running_registry

# Registry and image are built, and both may download.
pytestmark = pytest.mark.timeout(3600)

IMAGE, TAG = "score", "1.2.3"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    try:
        with running_registry(tmp_path_factory.mktemp("registry")) as running:
            yield running
    except BuildError as error:
        pytest.exit(str(error), returncode=3)


def pinned_packages() -> dict[str, set[str]]:
    """The packages of the image's requirements, each with its versions: another Python may have another one."""
    text = (IMAGES / IMAGE / "requirements.txt").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9._-]+)==([^ ;]+)", text, re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def test_an_image_is_pushed_as_it_is_written_down(
    engine: Engine, bases: Bases, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digest, tag, labels and packages are those that the registry's image has."""
    for name, value in engine.variables.items():
        monkeypatch.setenv(name, value)
    base = bases.of(IMAGES / IMAGE / "Dockerfile")
    mounts = [name for name in PIP_FILES if Path(name).is_file()] if engine.program != "docker" else []
    options = ["--network=host", *(f"--volume={name}:{name}:ro" for name in mounts)]
    where = f"{registry.address}/slipway"
    given = ["--only", IMAGE, "--tag", TAG, "--engine", engine.program, "--insecure", "--to", str(tmp_path)]
    given += [f"--build-option={option}" for option in options]
    assert main([where, *given, "--build-arg", f"{IMAGE}:BASE_IMAGE={base}"]) == 0

    (reference,) = json.loads((tmp_path / "images.json").read_text()).values()
    named, _, digest = reference.partition("@")
    assert named == f"{where}/{IMAGE}:{TAG}"
    manifest, said = registry.get(f"slipway/{IMAGE}/manifests/{TAG}")
    assert digest == said == f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    configuration = registry.configuration(f"slipway/{IMAGE}", digest)
    assert configuration["Labels"]["org.opencontainers.image.version"] == TAG
    assert configuration["User"] == "10001:10001"

    document = json.loads((tmp_path / f"{IMAGE}.cdx.json").read_text())
    assert document["metadata"]["component"]["version"] == digest
    listed = {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in document["components"]}
    pinned = pinned_packages()
    assert pinned.keys() <= listed.keys()
    assert {name: listed[name] for name in pinned if listed[name] not in pinned[name]} == {}
