"""A Docker Engine with Compose: the one that answers here, or one that is started for the lane and ended with it.

Debian's `dockerd` needs only root. Where `docker compose` is missing, it is built from the Go module proxy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.containers.engine import Engine, EngineError, NoEngineError

COMPOSE_MODULE, COMPOSE_VERSION = "github.com/docker/compose/v2", "v2.40.3"
VERSION_VARIABLE = "github.com/docker/compose/v2/internal.Version"
DAEMON_LIMIT_S, BUILD_LIMIT_S = 60.0, 1800.0
# Networks of their own, which nothing else on a machine has.
ADDRESSES = [{"base": "172.30.0.0/16", "size": 24}]


@dataclass(frozen=True)
class DockerEngine:
    """A Docker Engine that answers, and how its client is started."""

    variables: Mapping[str, str]

    def docker(self, *words: str, limit_s: float = 300.0) -> str:
        """Return what `docker …` says.

        :raises EngineError: it fails.
        """
        done = subprocess.run(
            ["docker", *words],
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-40:])
            raise EngineError(f"docker {' '.join(words[:3])}: exit code {done.returncode}\n{said}")
        return done.stdout

    def version(self) -> str:
        """Return the versions of engine and Compose."""
        engine = self.docker("version", "--format", "{{.Server.Version}}").strip()
        return f"Docker Engine {engine}, Compose {self.docker('compose', 'version', '--short').strip()}"

    def take_over(self, builder: Engine, image: str, name: str) -> None:
        """Copy an image from another engine, under a name."""
        with subprocess.Popen(
            builder.command("save", "--format", "docker-archive", image),
            env=builder.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as saving:
            loading = subprocess.run(
                ["docker", "load", "--quiet"],
                env={**os.environ, **self.variables},
                stdin=saving.stdout,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
        if loading.returncode != 0 or saving.returncode != 0:
            raise EngineError(f"{image} could not be given to Docker: {loading.stderr.strip()}")
        self.docker("tag", image, name)


@contextmanager
def docker_engine(folder: Path) -> Iterator[DockerEngine]:
    """Provide an engine with Compose; end it if it was started here.

    :raises NoEngineError: there is none, and none can be started.
    """
    if shutil.which("docker") is None:
        raise NoEngineError(
            "No `docker` on PATH. On Debian: apt-get install --no-install-recommends docker.io"
        )
    variables = {"DOCKER_CONFIG": str(folder / "docker-config")}
    if _answers({}):
        provide_compose({}, folder)
        yield DockerEngine(variables if (folder / "docker-config").is_dir() else {})
        return
    variables["DOCKER_HOST"] = f"unix://{folder / 'docker-run' / 'docker.sock'}"
    with _running_daemon(folder, variables):
        provide_compose(variables, folder)
        yield DockerEngine(variables)


def _answers(variables: Mapping[str, str]) -> bool:
    done = subprocess.run(
        ["docker", "info"], env={**os.environ, **variables}, capture_output=True, timeout=60, check=False
    )
    return done.returncode == 0 and b"Server Version" in done.stdout


@contextmanager
def _running_daemon(folder: Path, variables: Mapping[str, str]) -> Iterator[None]:
    if os.getuid() != 0 or shutil.which("dockerd") is None:
        raise NoEngineError(
            "No Docker Engine answers, and none can be started. Expected DOCKER_HOST or a socket that answers; or "
            "dockerd on PATH, and root."
        )
    run = folder / "docker-run"
    run.mkdir(parents=True, exist_ok=True)
    configuration = folder / "daemon.json"
    settings = {
        "data-root": str(folder / "docker"),
        "exec-root": str(run),
        "pidfile": str(run / "docker.pid"),
        "hosts": [variables["DOCKER_HOST"]],
        "default-address-pools": ADDRESSES,
        "bip": "172.29.0.1/24",
        # A lower one needs a right that not every root has.
        "oom-score-adjust": 0,
    }
    if not Path("/run/systemd/system").is_dir():
        settings["exec-opts"] = ["native.cgroupdriver=cgroupfs"]
    configuration.write_text(json.dumps(settings))
    with (folder / "dockerd.log").open("wb") as log:
        daemon = subprocess.Popen(["dockerd", "--config-file", str(configuration)], stdout=log, stderr=log)
    try:
        limit = time.monotonic() + DAEMON_LIMIT_S
        while not _answers(variables):
            if daemon.poll() is not None or time.monotonic() > limit:
                raise NoEngineError(f"dockerd did not start; its log: {folder / 'dockerd.log'}")
            time.sleep(0.5)
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)


def provide_compose(variables: Mapping[str, str], folder: Path) -> None:
    """Return once `docker compose` works, which is built where it does not.

    :raises NoEngineError: it is not there, and neither is Go.
    """
    plugin = folder / "docker-config" / "cli-plugins" / "docker-compose"
    if _has_compose(variables) or plugin.is_file():
        return
    if shutil.which("go") is None:
        raise NoEngineError(
            "`docker compose` is missing. Install its plugin; or Go, with which it is built here."
        )
    work = folder / "compose"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    # Its go.mod replaces modules, which `go install` refuses: it is built in its own folder.
    _go(work, "mod", "init", "lane")
    answer = _go(work, "mod", "download", "-json", f"{COMPOSE_MODULE}@{COMPOSE_VERSION}")
    source = work / "source"
    shutil.copytree(json.loads(answer)["Dir"], source, copy_function=shutil.copyfile)
    plugin.parent.mkdir(parents=True, exist_ok=True)
    flags = f"-s -w -X {VERSION_VARIABLE}={COMPOSE_VERSION}"
    _go(source, "build", "-trimpath", "-ldflags", flags, "-o", str(plugin), "./cmd")


def _has_compose(variables: Mapping[str, str]) -> bool:
    done = subprocess.run(
        ["docker", "compose", "version"],
        env={**os.environ, **variables},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode == 0


def _go(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["nice", "-n", "10", "go", *words],
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise NoEngineError(f"go {words[0]} failed: {done.stderr.strip()[-800:]}")
    return done.stdout
