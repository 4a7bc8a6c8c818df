"""A real registry of images on loopback: the program of the CNCF's distribution project, and what it holds."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.conformance.build import REGISTRY, build

LIMIT_S = 120.0
_MANIFEST = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"


class Registry:
    """A running registry.

    :param address: host and port, without a scheme.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str) -> tuple[bytes, str]:
        """Return what lies at a path below /v2/, and the digest that the registry says it has."""
        asked = urllib.request.Request(f"http://{self.address}/v2/{path}", headers={"Accept": _MANIFEST})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.read(), answer.headers.get("Docker-Content-Digest", "")

    def configuration(self, repository: str, digest: str) -> dict[str, Any]:
        """Return the configuration of an image: labels, user, environment."""
        manifest = json.loads(self.get(f"{repository}/manifests/{digest}")[0])
        content, _ = self.get(f"{repository}/blobs/{manifest['config']['digest']}")
        found: dict[str, Any] = json.loads(content)["config"]
        return found


@contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    """Start a registry that keeps its images in a folder; it is built first if it has never been.

    :raises BuildError: it can't be built.
    """
    program = build(REGISTRY).programs["registry"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "images")}},
        "http": {"addr": address, "secret": "of this run"},
    }
    (folder / "registry.yaml").write_text(json.dumps(settings), encoding="utf-8")
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", str(folder / "registry.yaml")], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        registry = Registry(address)
        _wait(registry, process, folder / "registry.log")
        yield registry
    finally:
        process.terminate()
        process.wait(timeout=LIMIT_S)


def _wait(registry: Registry, process: subprocess.Popen[bytes], log: Path) -> None:
    began_s = time.monotonic()
    while True:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            registry.get("")
            return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() - began_s < LIMIT_S, log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)
