"""Images built and pushed, with a program in place of the engine; and what is written down."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from slipway_core.spec.parts import ImageReference
from slipway_infrastructure.images import __main__ as program
from slipway_infrastructure.images.engine import EngineError, find_engine
from slipway_infrastructure.images.pushed import chart_values, references
from tests.support.infrastructure.fake_engine import FakeEngine

REGISTRY = "registry.example.com/slipway"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
ONLY = ["--only", "guard,score", "--tag", "1.2"]


def push(engine: FakeEngine, folder: Path, *more: str) -> int:
    """Build and push two images; lists of packages have a test of their own."""
    options = ["--engine", str(engine.program), "--to", str(folder), "--no-packages", *more]
    return program.main([REGISTRY, *ONLY, *options])


@pytest.fixture(params=["docker", "podman", "buildah"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path, request.param)


def test_digests_are_written_down(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The chart gets the images that it starts, release files the others, and both are pinned."""
    assert push(engine, tmp_path / "out") == 0
    values = json.loads((tmp_path / "out" / "values.yaml").read_text())
    images = json.loads((tmp_path / "out" / "images.json").read_text())
    assert values["images"].keys() == {"registry", "tag", "digests"}
    assert (values["images"]["registry"], values["images"]["tag"]) == (REGISTRY, "1.2")
    assert values["images"]["digests"].keys() == {"guard"}
    assert DIGEST.fullmatch(values["images"]["digests"]["guard"])
    assert images["guard"] == f"{REGISTRY}/guard:1.2@{values['images']['digests']['guard']}"
    assert images.keys() == {"guard", "score"}
    assert all(reference in capsys.readouterr().out for reference in list(images.values())[:1])


def test_everything_is_built_before_anything_is_pushed(engine: FakeEngine, tmp_path: Path) -> None:
    """A build that fails leaves the registry as it was."""
    assert push(engine, tmp_path / "out") == 0
    kinds = [words[0] for words in engine.calls() if words[0] in ("build", "push")]
    assert kinds == ["build", "build", "push", "push"]


@pytest.mark.parametrize("failing", ["build", "score", "push"])
def test_a_failure_is_said_and_nothing_is_written(
    engine: FakeEngine, tmp_path: Path, failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 with the end of the engine's output; no values name an image that isn't there."""
    engine.says("failing", failing)
    assert push(engine, tmp_path / "out") == 1
    assert "no space left on device" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    if failing != "push":
        assert [words for words in engine.calls() if words[0] == "push"] == []


def test_an_engine_that_names_no_digest_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An image that isn't pinned could be another one tomorrow."""
    engine = FakeEngine(tmp_path, "podman")
    engine.says("digest", "latest")
    assert push(engine, tmp_path / "out") == 1
    assert "names no digest" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_options_reach_the_engine(tmp_path: Path) -> None:
    """Of the build, and of a registry without TLS."""
    engine = FakeEngine(tmp_path, "buildah")
    assert push(engine, tmp_path / "out", "--build-option=--no-cache", "--insecure") == 0
    calls = engine.calls()
    assert all(words[1] == "--no-cache" for words in calls if words[0] == "build")
    assert all(words[1] == "--tls-verify=false" for words in calls if words[0] == "push")


def test_no_engine_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message names what was looked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLIPWAY_CONTAINER_ENGINE", raising=False)
    with pytest.raises(EngineError, match="podman, docker, buildah"):
        find_engine("", insecure=False)


def test_values_have_only_what_was_pushed() -> None:
    """An image that was not pushed keeps the values that it has."""
    assert chart_values(REGISTRY, "1.2", {"score": "sha256:1"}) == {
        "images": {"registry": REGISTRY, "tag": "1.2", "digests": {}}
    }


def test_a_release_file_takes_a_reference() -> None:
    """With its tag for people, and its digest for the node."""
    (image,) = references(REGISTRY, "1.2", {"perf-analyzer": f"sha256:{'0' * 64}"}).values()
    assert TypeAdapter(ImageReference).validate_python(image) == image
