"""Which images are built, and with which arguments."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from slipway_infrastructure.images.__main__ import main
from slipway_infrastructure.images.dockerfiles import ImageArgumentsError, by_image, chosen, with_release
from slipway_infrastructure.manifests import IMAGES

COMMIT = "0" * 40
COMPLETE = ["--release", "26.07", "--build-arg", f"tensorrt-llm:TENSORRT_LLM_COMMIT={COMMIT}"]


def test_all_images_are_built_by_default() -> None:
    """Every folder with a Dockerfile; a list with commas names some."""
    assert chosen("") == sorted(path.parent.name for path in IMAGES.glob("*/Dockerfile"))
    assert chosen("verify, guard,guard") == ["guard", "verify"]


@pytest.mark.parametrize(
    ("name", "given", "release", "expected"),
    [
        pytest.param("guard", {}, "", {}, id="a-base-by-default"),
        pytest.param("guard", {}, "26.07", {}, id="no-release-to-depend-on"),
        pytest.param("smoke-test", {}, "26.07", {"RELEASE": "26.07"}, id="the-release"),
        pytest.param(
            "smoke-test", {"BASE_IMAGE": "mine:1"}, "26.07", {"BASE_IMAGE": "mine:1"}, id="a-base-of-ones-own"
        ),
        pytest.param("tensorrt", {"RELEASE": "25.08"}, "26.07", {"RELEASE": "25.08"}, id="its-own-release"),
        pytest.param(
            "tensorrt-llm",
            {"TENSORRT_LLM_COMMIT": COMMIT},
            "26.07",
            {"TENSORRT_LLM_COMMIT": COMMIT, "RELEASE": "26.07"},
            id="a-commit",
        ),
    ],
)
def test_arguments_of_an_image(
    name: str, given: dict[str, str], release: str, expected: dict[str, str]
) -> None:
    """An image on NVIDIA's base gets the servers' release, unless it has a base of its own."""
    assert with_release(name, given, release) == expected


@pytest.mark.parametrize(
    ("name", "given", "release", "message"),
    [
        pytest.param("smoke-test", {}, "", "smoke-test needs --release YY.MM", id="no-release"),
        pytest.param(
            "tensorrt-llm",
            {},
            "26.07",
            "needs --build-arg tensorrt-llm:TENSORRT_LLM_COMMIT=…",
            id="no-commit",
        ),
        pytest.param(
            "guard", {"BASE": "x"}, "", "the Dockerfile of guard has no argument BASE", id="unknown"
        ),
    ],
)
def test_what_is_missing_is_named(name: str, given: dict[str, str], release: str, message: str) -> None:
    """Nothing is built with a base that doesn't exist, or left out without a word."""
    with pytest.raises(ImageArgumentsError) as caught:
        with_release(name, given, release)
    assert message in str(caught.value)


def test_build_arguments_name_their_image() -> None:
    """A value may have any character."""
    words = ["guard:BASE_IMAGE=mine/python@sha256:1=2", "guard:IMAGE_SOURCE=https://x"]
    assert by_image(words) == {"guard": {"BASE_IMAGE": "mine/python@sha256:1=2", "IMAGE_SOURCE": "https://x"}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["Example.com/slipway"], "'Example.com/slipway' cannot be the registry", id="registry"),
        pytest.param(["registry/slipway/"], "'registry/slipway/' cannot be the registry", id="slash"),
        pytest.param(["r/s", "--tag", "a b"], "'a b' cannot be the tag", id="tag"),
        pytest.param(["r/s", "--release", "next"], "'next' cannot be the release", id="release"),
        pytest.param(["r/s", "--only", "gard"], "no image is named 'gard'", id="image"),
        pytest.param(
            ["r/s", "--only", "guard", "--build-arg", "verify:IMAGE_SOURCE=x"],
            "--build-arg names verify, which is not built",
            id="unused",
        ),
        pytest.param(["r/s", "--build-arg", "BASE=x"], "is not of the form IMAGE:NAME=VALUE", id="form"),
        pytest.param(["r/s"], "smoke-test needs --release YY.MM", id="all-without-a-release"),
    ],
)
def test_what_cannot_be_built_is_refused_at_once(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit code 2, before the engine is started."""
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--engine", "false", "--to", str(tmp_path / "out")])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_dry_run_prints_the_builds(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its Dockerfile, its tag in the registry, and the context."""
    assert main(["registry.example.com/team", "--dry-run", "--tag", "1.2", *COMPLETE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(chosen(""))
    (line,) = (line for line in lines if "/tensorrt-llm/Dockerfile" in line)
    assert line.startswith("docker build --build-arg=IMAGE_VERSION=1.2 --build-arg=IMAGE_REVISION=")
    assert f"--build-arg=TENSORRT_LLM_COMMIT={COMMIT} --build-arg=RELEASE=26.07" in line
    assert shlex.split(line)[-3:] == ["-t", "registry.example.com/team/tensorrt-llm:1.2", str(IMAGES.parent)]
