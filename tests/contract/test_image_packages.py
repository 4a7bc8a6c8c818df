"""Lists of an image's packages, written by the real cyclonedx-bom; the engine is a program in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway_infrastructure.images import __main__ as program
from slipway_infrastructure.images.engine import Engine
from slipway_infrastructure.images.packages import PackagesError, list_packages, provide_tool
from tests.support.infrastructure.fake_engine import FakeEngine

REGISTRY = "registry.example.com/slipway"
# Installing the tool may download.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tool, installed with the hashes of its requirements."""
    folder = tmp_path_factory.mktemp("tools")
    provide_tool(folder)
    return folder


@pytest.mark.parametrize("kind", ["docker", "podman", "buildah"])
def test_a_list_describes_the_image_that_was_pushed(
    tools: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name, version, address and license of each package, and the digest of the image."""
    monkeypatch.setattr(program, "TOOLS", tools)
    engine, folder = FakeEngine(tmp_path, kind), tmp_path / "out"
    assert (
        program.main([REGISTRY, "--only", "guard", "--engine", str(engine.program), "--to", str(folder)]) == 0
    )
    document = json.loads((folder / "guard.cdx.json").read_text())
    digest = json.loads((folder / "values.yaml").read_text())["images"]["digests"]["guard"]
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    subject = document["metadata"]["component"]
    assert (subject["type"], subject["name"], subject["version"]) == (
        "container",
        f"{REGISTRY}/guard",
        digest,
    )
    assert {one["name"]: one["purl"] for one in document["components"]} == {
        "boto3": "pkg:pypi/boto3@1.40.0",
        "numpy": "pkg:pypi/numpy@2.3.1",
    }
    assert document["components"][0]["licenses"][0]["license"]["id"] == "MIT"
    if kind == "buildah":
        assert engine.calls()[-2][0] == "rm"


def test_the_tool_is_installed_once(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that is there is used as it is."""
    monkeypatch.setattr("venv.create", None)
    assert provide_tool(tools).is_file()


def test_an_image_without_packages_is_an_error(tools: Path, tmp_path: Path) -> None:
    """An empty list would say that there is nothing to look for."""
    engine = FakeEngine(tmp_path, "docker")
    engine.packages()
    with pytest.raises(PackagesError, match="has 0 packages"):
        list_packages(Engine(str(engine.program)), provide_tool(tools), f"{REGISTRY}/guard:1")


def test_a_program_that_prints_something_else_is_an_error(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is pushed that can't be listed."""
    monkeypatch.setattr(program, "TOOLS", tools)
    engine = FakeEngine(tmp_path, "docker")
    engine.says("packages", "Traceback")
    given = [REGISTRY, "--only", "guard", "--engine", str(engine.program), "--to", str(tmp_path / "out")]
    assert program.main(given) == 1
    assert "the images were not pushed" in capsys.readouterr().err
    assert [words for words in engine.calls() if words[0] == "push"] == []
