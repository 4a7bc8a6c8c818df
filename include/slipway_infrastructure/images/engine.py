"""Docker, Podman or Buildah, as far as images are built, looked into and pushed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("podman", "docker", "buildah")
PROGRAM_VARIABLE = "SLIPWAY_CONTAINER_ENGINE"
LIMIT_S = 3600.0
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class EngineError(Exception):
    """The engine is missing, or failed; the message has the end of its output."""


def find_engine(asked: str, insecure: bool) -> Engine:
    """Return the engine that was asked for, that SLIPWAY_CONTAINER_ENGINE names, or else the first that is installed.

    :param insecure: whether the registry is reached without TLS.
    :raises EngineError: there is none.
    """
    named = asked or os.environ.get(PROGRAM_VARIABLE, "")
    program = next((one for one in ([named] if named else PROGRAMS) if shutil.which(one)), None)
    if program is None:
        raise EngineError(f"no container engine was found: expected {named or ', '.join(PROGRAMS)} on PATH")
    return Engine(program, insecure)


@dataclass(frozen=True)
class Engine:
    """A program that builds and pushes images.

    :param program: docker, podman or buildah, or a path to one of them.
    :param insecure: whether the registry is reached without TLS. Docker decides that itself.
    """

    program: str
    insecure: bool = False

    @property
    def kind(self) -> str:
        """Which of the three it is."""
        return Path(self.program).name

    def build(self, words: list[str]) -> None:
        """Build an image.

        :raises EngineError: the build failed.
        """
        self._call("build", *words)

    def output_of_python(self, reference: str, program: str) -> str:
        """Return what a program for the image's own Python prints; it has no network.

        :raises EngineError: it failed.
        """
        if self.kind != "buildah":
            entry = ("--network", "none", "--entrypoint", "python3")
            return self._call("run", "--rm", *entry, reference, "-c", program)
        container = self._call("from", "--pull-never", reference).strip()
        try:
            return self._call("run", "--network", "none", container, "--", "python3", "-c", program)
        finally:
            self._call("rm", container)

    def push(self, reference: str) -> str:
        """Push an image; return the digest under which the registry has it.

        :raises EngineError: the push failed, or the engine names no digest.
        """
        if self.kind == "docker":
            self._call("push", reference)
            inspected = self._call("image", "inspect", "--format", "{{json .RepoDigests}}", reference)
            repository = reference.rpartition(":")[0]
            found = [one for one in json.loads(inspected) if one.startswith(f"{repository}@")]
            digest = found[0].rpartition("@")[2] if len(found) == 1 else ""
        else:
            with tempfile.TemporaryDirectory(prefix="slipway-push-") as folder:
                file = Path(folder) / "digest"
                plain = ["--tls-verify=false"] if self.insecure else []
                self._call("push", *plain, "--digestfile", str(file), reference)
                digest = file.read_text(encoding="utf-8").strip()
        if not _DIGEST.fullmatch(digest):
            raise EngineError(f"{self.program} names no digest of {reference}, but {digest[:100]!r}")
        return digest

    def _call(self, *words: str) -> str:
        try:
            done = subprocess.run(
                [self.program, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"{self.program} {words[0]}: {error}") from error
        if done.returncode != 0:
            end = "\n".join((done.stdout + done.stderr).strip().splitlines()[-25:])
            raise EngineError(f"{self.program} {words[0]} ended with exit code {done.returncode}\n{end}")
        return done.stdout
