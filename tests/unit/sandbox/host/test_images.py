"""slipway_sandbox.host.images: environments that stand for images."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway_sandbox.host import images


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with one image, `tiny`, that installs nothing."""
    folder = tmp_path / "sources"
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny" / "requirements.txt").write_text("# nothing\n")
    return folder


@pytest.fixture
def build(sources: Path, tmp_path: Path) -> Callable[[], tuple[Path, list[str]]]:
    """Builds `tiny`; returns its folder and what was reported."""

    def act() -> tuple[Path, list[str]]:
        lines: list[str] = []
        home = images.build_image("tiny", tmp_path / "images", sources=sources, report=lines.append)
        return home, lines

    return act


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("slipway/onnx:0.1.0", "onnx"),
        ("onnx", "onnx"),
        ("registry.example:5000/team/slipway/perf-analyzer:0.1.0", "perf-analyzer"),
        ("slipway/triton@sha256:0123", "triton"),
    ],
)
def test_name_of_a_reference(reference: str, name: str) -> None:
    """Registry, path, tag and digest do not matter: the last part of the path names the image."""
    assert images.image_name(reference) == name


@pytest.mark.parametrize(
    "reference", ["", "slipway/", "slipway/..", "slipway/.hidden:1", "Slipway/ONNX", "a b"]
)
def test_reference_without_a_name(reference: str) -> None:
    """What names no image, or would name a folder outside, is refused."""
    with pytest.raises(images.ImageError, match="is not an image reference"):
        images.image_name(reference)


def test_unknown_image(tmp_path: Path) -> None:
    """An unknown name is answered with the known ones."""
    with pytest.raises(images.ImageError, match=r"image 'tensorflow' does not exist.*onnx"):
        images.build_image("tensorflow", tmp_path)


def test_the_projects_images_are_known() -> None:
    """Every image of the project is known, and the requirements carry hashes and no package index."""
    assert images.known_images() == [
        "ensemble",
        "genai-perf",
        "guard",
        "mirror-comparison",
        "mlflow",
        "onnx",
        "perf-analyzer",
        "python",
        "pytorch",
        "score",
        "sklearn",
        "smoke-test",
        "tensorrt",
        "tensorrt-llm",
        "triton",
        "verify",
    ]
    for name in images.known_images():
        text = images.image_source(name).requirements.read_text()
        pins = re.findall(r"^[a-z0-9._-]+==\S+.*\\$", text, re.MULTILINE)
        assert pins
        assert len(pins) <= text.count("--hash=sha256:")
        assert "://" not in text


def test_build_and_reuse(build: Callable[[], tuple[Path, list[str]]], sources: Path, tmp_path: Path) -> None:
    """An environment is built once, works, and is used again as long as its requirements are the same."""
    home, _ = build()
    python = images.image_python("tiny", tmp_path / "images")
    program = "import sys; print(sys.prefix != sys.base_prefix)"
    answer = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "True"
    assert images.is_built("tiny", tmp_path / "images", sources=sources)
    before = home.resolve()
    _, reported = build()
    assert reported == ["tiny: up to date"]
    assert home.resolve() == before


def test_what_pods_import_has_its_bytecode(
    build: Callable[[], tuple[Path, list[str]]], sources: Path, tmp_path: Path
) -> None:
    """A pod cannot write bytecode, so the image holds it, also of what a package imports later.

    A module that cannot be imported breaks no build.
    """
    named = images.imported_by_pods()
    assert {"boto3", "onnx", "onnxslim", "torch"} <= set(named)
    assert not {"slipway_pod", "json"} & {name.partition(".")[0] for name in named}
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("boto3/__init__.py", "")
        file.writestr("boto3/later.py", "")
        file.writestr("onnx.py", "raise RuntimeError")
        file.writestr("torch.py", "")
        file.writestr("other.py", "")
        file.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr("tiny-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    pinned = f"--no-index\n--find-links {tmp_path}\ntiny==1.0 --hash=sha256:{digest}\n"
    (sources / "tiny" / "requirements.txt").write_text(pinned)
    home, _ = build()
    (site,) = home.glob("lib/*/site-packages")
    compiled = {
        str(path.parent.parent.relative_to(site) / path.name.partition(".")[0])
        for path in site.glob("**/__pycache__/*.pyc")
    }
    assert {"boto3/__init__", "boto3/later", "torch"} <= compiled
    assert "other" not in compiled


def test_changed_requirements(
    build: Callable[[], tuple[Path, list[str]]], sources: Path, tmp_path: Path
) -> None:
    """Other requirements make another environment, and the former one goes."""
    home, _ = build()
    before = home.resolve()
    (sources / "tiny" / "requirements.txt").write_text("# still nothing\n")
    assert not images.is_built("tiny", tmp_path / "images", sources=sources)
    build()
    assert home.resolve() != before
    assert not before.exists()


def test_a_folder_made_by_hand_is_replaced(
    build: Callable[[], tuple[Path, list[str]]], tmp_path: Path
) -> None:
    """A folder that was not built here gives way to one that was."""
    by_hand = tmp_path / "images" / "tiny"
    by_hand.mkdir(parents=True)
    (by_hand / "file").touch()
    home, _ = build()
    assert home == by_hand
    assert home.is_symlink()
    assert not (home / "file").exists()
    assert len([path for path in home.parent.iterdir() if path.is_dir() and not path.is_symlink()]) == 1


def test_a_failed_build_leaves_the_former_environment(
    build: Callable[[], tuple[Path, list[str]]], sources: Path
) -> None:
    """A package without a hash cannot be installed: the error says which image, and the old environment stays."""
    home, _ = build()
    before = home.resolve()
    (sources / "tiny" / "requirements.txt").write_text("./no-such-package\n")
    with pytest.raises(images.ImageError, match="'tiny' could not be built"):
        build()
    assert home.resolve() == before
    assert (home / "bin" / "python").exists()


def test_half_built_is_built_again(build: Callable[[], tuple[Path, list[str]]]) -> None:
    """What an interrupted build left, without its stamp, does not count as built."""
    home, _ = build()
    (home / images.STAMP).unlink()
    _, reported = build()
    assert reported[0] == "tiny: installing 0 packages"
    assert (home / images.STAMP).exists()


def test_the_interpreter_that_was_chosen_is_kept(
    build: Callable[[], tuple[Path, list[str]]], sources: Path, tmp_path: Path
) -> None:
    """An environment built upon an interpreter of choice is not rebuilt upon another by those who name none."""
    other = tmp_path / "other"
    subprocess.run([images.find_uv(), "venv", "--quiet", "--python", sys.executable, str(other)], check=True)
    chosen = str(other / "bin" / "python")
    images.build_image("tiny", tmp_path / "images", python=chosen, sources=sources, report=lambda _: None)
    _, reported = build()
    assert reported == ["tiny: up to date"]


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The command answers an unknown name with one line and exit code 1."""
    assert images.main(["no-such-image"]) == 1
    assert "The image 'no-such-image' does not exist" in capsys.readouterr().err
