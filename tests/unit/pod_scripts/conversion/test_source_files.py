"""A source of many files: what of it is fetched, and what of an archive is unpacked."""

from __future__ import annotations

import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway_pod.conversion.source_files import MAX_FILES, fetch_source, require_plain_and_small
from slipway_pod.errors import PodError

FOLDER = "s3://bucket/in"


class FakeStore:
    """A folder in memory, or an archive on disk."""

    def __init__(self, files: dict[str, bytes], archive: Path | None = None) -> None:
        self.files, self.archive = files, archive

    def sizes(self, url: str) -> dict[str, int]:
        return {name: len(content) for name, content in self.files.items()}

    def download(self, url: str, target: Path) -> None:
        if self.archive is not None:
            shutil.copyfile(self.archive, target)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.files[url.removeprefix(f"{FOLDER}/")])


def fetch(store: Any, url: str, folder: Path, limit_bytes: int = 1000) -> tuple[dict[str, bytes], list[str]]:
    """What lies in the folder afterwards, and what was left out."""
    target = folder / "source"
    target.mkdir()
    left_out = fetch_source(store, url, target, limit_bytes=limit_bytes, but=("ready.json",))
    files = {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    return files, left_out


def test_a_folder_is_fetched_without_droppings(tmp_path: Path) -> None:
    """Hidden files, compiled Python, markers of folders and paths from the root are left out, and named."""
    files = {
        "1/model.py": b"x",
        ".git/config": b"x",
        "1/__pycache__/m.pyc": b"x",
        "1/": b"",
        "/etc/x": b"",
        "ready.json": b"{}",
    }
    found, left_out = fetch(FakeStore(files), FOLDER, tmp_path)
    assert found == {"1/model.py": b"x"}
    assert left_out == [".git/config", "/etc/x", "1/", "1/__pycache__/m.pyc"]


def packed(kind: str, folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / f"made.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as bundle:
            bundle.mkdir("1")
            for name, content in files.items():
                bundle.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz" if kind.endswith("gz") else "w") as bundle:
        for name, content in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content)
            bundle.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("escape")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        bundle.addfile(link)
    return path


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tgz"])
def test_of_an_archive_only_regular_files_are_unpacked(tmp_path: Path, kind: str) -> None:
    """Each kind of archive gives the same files; links and folders are passed over."""
    store = FakeStore({}, packed(kind, tmp_path, {"1/model.py": b"x", ".hidden": b"y"}))
    found, left_out = fetch(store, f"s3://bucket/model.{kind}", tmp_path)
    assert (found, left_out) == ({"1/model.py": b"x"}, [".hidden"])


@pytest.mark.parametrize("content", [b"", b"no archive at all"])
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_what_is_no_archive_is_told(tmp_path: Path, kind: str, content: bytes) -> None:
    """A file that only has an archive's name is the person's to mend."""
    path = tmp_path / "made"
    path.write_bytes(content)
    with pytest.raises(PodError, match="cannot be unpacked") as raised:
        fetch(FakeStore({}, path), f"s3://bucket/model.{kind}", tmp_path)
    assert raised.value.kind == "ModelInvalidError"


def _deflated() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("1/model.py", bytes(range(200)) * 2)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda made: made[:40] + b"\xff" * 30 + made[70:], id="broken deflate: zlib.error"),
        pytest.param(lambda made: made.replace(b"1/model.py", bytes(10)), id="no name: IndexError"),
    ],
)
def test_a_damaged_zip_is_told(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Whatever is wrong inside the archive, it is the person's to mend and ends in no other error."""
    path = tmp_path / "made"
    path.write_bytes(damage(_deflated()))
    with pytest.raises(PodError) as raised:
        fetch(FakeStore({}, path), "s3://bucket/model.zip", tmp_path, limit_bytes=100_000)
    assert raised.value.kind in ("ModelInvalidError", "InputMissingError")


@pytest.mark.parametrize("name", ["../up.py", "a/../../up.py", "a..b.py", "a b.py", "-x.py"])
def test_names_that_no_repository_has_are_refused(tmp_path: Path, name: str) -> None:
    """A name that leads outside, or that a repository cannot have, is refused in a folder and in an archive."""
    files = {"model.py": b"x", name: b"y"}
    stores = [
        (FakeStore(files), FOLDER),
        (FakeStore({}, packed("zip", tmp_path, files)), "s3://bucket/m.zip"),
    ]
    for number, (store, url) in enumerate(stores):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.raises(PodError, match="cannot have") as raised:
            fetch(store, url, place)
        assert repr(name) in str(raised.value.found)
    assert not list(tmp_path.rglob("up.py"))


def test_size_and_number_are_limited() -> None:
    """Bytes and files are counted before anything is fetched; a source of exactly the limit passes."""
    require_plain_and_small({"a": 600, "b": 400}, 1000, "it")
    with pytest.raises(PodError, match="too large"):
        require_plain_and_small({"a": 600, "b": 401}, 1000, "it")
    with pytest.raises(PodError, match="too large"):
        require_plain_and_small({f"f{number}": 0 for number in range(MAX_FILES + 1)}, 1000, "it")
    with pytest.raises(PodError, match="is empty") as raised:
        require_plain_and_small({}, 1000, "it")
    assert raised.value.kind == "InputMissingError"
