"""An image as an archive that containerd imports, written without a container engine."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_PROGRAM_MODE, _FILE_MODE = 0o755, 0o644


@dataclass(frozen=True)
class Layer:
    """What one layer adds to a root file system, all of it root's.

    :param files: content by absolute path.
    :param programs: files of this machine that become executable ones, by absolute path.
    :param folders: the rights of empty folders, by absolute path.
    :param links: the target of a link, by absolute path.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    programs: Mapping[str, Path] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def archive(self) -> bytes:
        """Return the layer as a tar file."""
        written = io.BytesIO()
        with tarfile.open(fileobj=written, mode="w") as tar:
            for path, mode in self.folders.items():
                entry = _entry(path, mode)
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            for path, target in self.links.items():
                entry = _entry(path, _FILE_MODE)
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                tar.addfile(entry)
            for path, content in self.files.items():
                entry = _entry(path, _FILE_MODE)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
            for path, source in self.programs.items():
                entry = _entry(path, _PROGRAM_MODE)
                entry.size = source.stat().st_size
                with source.open("rb") as program:
                    tar.addfile(entry, program)
        return written.getvalue()


@dataclass(frozen=True)
class Image:
    """What `docker build` would have made.

    :param name: the whole reference by which containerd knows it.
    :param layers: the first one lowest.
    :param user: by number, `USER:GROUP`.
    """

    name: str
    layers: tuple[Layer, ...]
    user: str = "0:0"
    environment: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    folder: str = "/"

    def configuration(self, digests: Iterable[str]) -> dict[str, Any]:
        """Return what an engine reads before it runs the image.

        :param digests: the layers', with their algorithm.
        """
        return {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "User": self.user,
                "Env": [f"{name}={value}" for name, value in self.environment.items()],
                "Entrypoint": list(self.entrypoint),
                "WorkingDir": self.folder,
            },
            "rootfs": {"type": "layers", "diff_ids": list(digests)},
        }


def write_archive(images: Iterable[Image], file: IO[bytes]) -> None:
    """Write images as `docker save` does; a layer that several have is written once."""
    written: dict[int, str] = {}
    manifest = []
    with tarfile.open(fileobj=file, mode="w") as tar:
        for image in images:
            for layer in image.layers:
                if id(layer) not in written:
                    written[id(layer)] = _add(tar, layer.archive(), "tar")
            names = [written[id(layer)] for layer in image.layers]
            digests = [f"sha256:{name.removesuffix('.tar')}" for name in names]
            configuration = _add(tar, json.dumps(image.configuration(digests)).encode(), "json")
            manifest.append({"Config": configuration, "RepoTags": [image.name], "Layers": names})
        content = json.dumps(manifest).encode()
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))


def _add(tar: tarfile.TarFile, content: bytes, ending: str) -> str:
    entry = tarfile.TarInfo(f"{hashlib.sha256(content).hexdigest()}.{ending}")
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
    return entry.name


def _entry(path: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.strip("/"))
    entry.mode = mode
    return entry
