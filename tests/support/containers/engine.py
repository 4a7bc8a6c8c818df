"""A container engine as the lane of images uses it: Podman with settings and storage of its own, or Docker as it is.

What a machine does not allow, Podman is not asked for: limits above this process's own, systemd where there is none,
a runtime that does not know the machine's cgroups.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDER_VARIABLE = "SLIPWAY_CONTAINERS_DIR"
PROGRAM_VARIABLE = "SLIPWAY_CONTAINER_ENGINE"
PROGRAMS = ("podman", "docker")
BUILD_LIMIT_S = 1800.0
RUN_LIMIT_S = 300.0
# Podman lowers the number of processes to this one, and refuses a larger one without the right to raise it.
MOST_PROCESSES = 32768
# What leads this machine's pip to its index: mounted while an image is built, and not part of it.
PIP_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
# As the operators start a pod: no right, no capability, a root file system that nobody can write to.
HARDENED = (
    *("--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--pids-limit", "512", "--memory", "2g"),
)
# The volume at /tmp, and the variables that lead programs there.
SCRATCH = ("--tmpfs", "/tmp:rw,exec,mode=1777", "--env", "TMPDIR=/tmp", "--env", "HOME=/tmp")


class NoEngineError(Exception):
    """There is no container engine that could be used; the message says what to install."""


class EngineError(Exception):
    """The engine refused or failed; the message has the end of what it said."""


def containers_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where Podman keeps images of this lane: `SLIPWAY_CONTAINERS_DIR`, or `.sandbox/containers`."""
    return Path(environment.get(FOLDER_VARIABLE) or PROJECT_ROOT / ".sandbox" / "containers").resolve()


def find_engine() -> Engine:
    """Return the engine that `SLIPWAY_CONTAINER_ENGINE` names, or else the first that is installed.

    :raises NoEngineError: there is none, or it does not work.
    """
    asked = os.environ.get(PROGRAM_VARIABLE)
    program = next((name for name in ([asked] if asked else PROGRAMS) if shutil.which(name)), None)
    if program is None:
        raise NoEngineError(
            f"No container engine was found. Expected {asked or ' or '.join(PROGRAMS)} on PATH. On Debian: "
            "apt-get install --no-install-recommends podman buildah runc netavark aardvark-dns"
        )
    engine = Engine(program, _podman_settings(containers_dir()) if program == "podman" else {})
    try:
        engine.call("version")
    except EngineError as error:
        raise NoEngineError(f"{program} does not work here: {error}") from error
    return engine


def _podman_settings(folder: Path) -> dict[str, str]:
    """Write Podman's configuration; return the variables that lead it there."""
    folder.mkdir(parents=True, exist_ok=True)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = MOST_PROCESSES if processes == resource.RLIM_INFINITY else min(processes, MOST_PROCESSES)
    engine = {"events_logger": "file"}
    if not Path("/run/systemd/system").is_dir():
        engine["cgroup_manager"] = "cgroupfs"
    if shutil.which("runc"):
        engine["runtime"] = "runc"  # crun knows no machine with both versions of cgroups
    lines = [f'{name} = "{value}"' for name, value in engine.items()]
    limits = f'default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]'
    configuration, storage = folder / "containers.conf", folder / "storage.conf"
    configuration.write_text("\n".join(["[containers]", limits, "[engine]", *lines, ""]))
    places = (f'graphroot = "{folder / "storage"}"', f'runroot = "{folder / "run"}"')
    storage.write_text("\n".join(["[storage]", 'driver = "overlay"', *places, ""]))
    return {"CONTAINERS_CONF": str(configuration), "CONTAINERS_STORAGE_CONF": str(storage)}


@dataclass(frozen=True)
class Engine:
    """A program that builds and runs images, and the variables that it is started with."""

    program: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def version(self) -> str:
        """Return the program's name and version."""
        return self.call("--version").strip()

    def command(self, *words: str) -> list[str]:
        """Return a command line of this engine: at low priority, so that the machine stays usable."""
        return ["nice", "-n", "10", self.program, *words]

    def environment(self) -> dict[str, str]:
        """Return what the program is started with."""
        return {**os.environ, **self.variables}

    def call(self, *words: str, limit_s: float = RUN_LIMIT_S) -> str:
        """Return what the program says.

        :raises EngineError: it ends with another exit code than 0.
        """
        done = subprocess.run(
            self.command(*words),
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-25:])
            raise EngineError(f"{self.program} {' '.join(words[:2])}: exit code {done.returncode}\n{said}")
        return done.stdout

    def has(self, image: str) -> bool:
        """Tell whether an image is there."""
        try:
            self.call("image", "inspect", "--format", "{{.Id}}", image)
        except EngineError:
            return False
        return True

    def build(
        self,
        dockerfile: Path,
        context: Path,
        image: str,
        arguments: Mapping[str, str] | None = None,
        mounts: Iterable[str] = (),
    ) -> float:
        """Build an image from a Dockerfile; return how many seconds it took. Layers of earlier builds are used.

        :param mounts: what is there while it is built, and no part of it; for Podman alone.
        """
        given = [f"--build-arg={name}={value}" for name, value in (arguments or {}).items()]
        given += [f"--volume={mount}" for mount in mounts]
        words = ["build", "--network", "host", *self._pip_mounts(), *given]
        began = time.monotonic()
        self.call(*words, "-f", str(dockerfile), "-t", image, str(context), limit_s=BUILD_LIMIT_S)
        return time.monotonic() - began

    def _pip_mounts(self) -> list[str]:
        # Docker's builder mounts nothing: there pip goes the way that the base image knows.
        if self.program != "podman":
            return []
        found = (name for name in PIP_FILES if Path(name).is_file())
        return ["--layers", *(f"--volume={name}:{name}:ro" for name in found)]

    def run(
        self, image: str, *command: str, options: Iterable[str] = (), network: str = "none"
    ) -> subprocess.CompletedProcess[str]:
        """Run an image to its end as a pod is run, and return how it ended."""
        words = self.run_words(image, *command, options=options, network=network)
        return subprocess.run(
            words,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
        )

    def run_words(
        self, image: str, *command: str, options: Iterable[str] = (), network: str = "none"
    ) -> list[str]:
        """Return the command that runs an image as a pod is run."""
        hardened = [*HARDENED, "--pull", "never", "--network", network]
        if self.program == "podman":
            # Podman itself would lay writable folders over a read-only root.
            hardened.append("--read-only-tmpfs=false")
        return self.command("run", *hardened, *options, image, *command)

    def inspect(self, image: str) -> dict[str, Any]:
        """Return what the engine knows of an image."""
        described: Sequence[dict[str, Any]] = json.loads(self.call("image", "inspect", image))
        return described[0]

    def size_mb(self, image: str) -> float:
        """Return the size of all layers of an image, in MB."""
        return float(self.inspect(image)["Size"]) / 1e6
