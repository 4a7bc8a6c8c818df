"""This project's docker-compose.yaml, brought up unmodified in a folder of its own, where nobody's `.env` is."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.settings import PROJECT_ROOT, SandboxSettings
from slipway_sandbox.services.airflow import access_token
from tests.support.containers.docker_engine import DockerEngine
from tests.support.containers.sandbox_servers import (
    KUBECONFIG,
    container_environment,
    container_kubeconfig,
    env_file,
)

MOUNTED = ("dags", "plugins", "include")
FILES = ("docker-compose.yaml", "pyproject.toml", "requirements.txt", ".dockerignore")
AIRFLOW_SERVICES = ("init", "api-server", "scheduler", "dag-processor", "triggerer", "worker")
UP_LIMIT_S, DOWN_LIMIT_S = 900.0, 300.0
_ASK_LIMIT_S = 60.0
GATEWAY, BRIDGE = "172.30.200.1", "slipway-lane"
USER = "admin"
LEASE_S, SLOW_MS, SLOWER_PERCENT = 300, 5000, 400


@dataclass(frozen=True)
class ComposeProject:
    """A copy of what docker-compose.yaml builds and mounts, with a `.env` and the kubeconfig's mount beside it."""

    engine: DockerEngine
    folder: Path
    name: str
    port: int
    password: str

    @classmethod
    def prepare(
        cls,
        engine: DockerEngine,
        folder: Path,
        settings: SandboxSettings,
        *,
        images: Mapping[str, str],
        commit: str,
    ) -> ComposeProject:
        """Lay the project out.

        :param images: stand-ins, by the variables of `.env.example` that name images.
        :param commit: what manifests shall say.
        """
        folder.mkdir(parents=True)
        for name in MOUNTED:
            shutil.copytree(
                PROJECT_ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "sandbox")
            )
        for name in FILES:
            shutil.copyfile(PROJECT_ROOT / name, folder / name)
        _bear_a_busy_machine(folder / "include" / "releases" / "digits.yaml")
        password = secrets.token_hex(12)
        values = {
            "SLIPWAY_FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "SLIPWAY_API_SECRET_KEY": secrets.token_hex(32),
            "SLIPWAY_JWT_SECRET": secrets.token_hex(32),
            "SLIPWAY_POSTGRES_PASSWORD": secrets.token_hex(16),
            "SLIPWAY_REDIS_PASSWORD": secrets.token_hex(16),
            "SLIPWAY_ADMIN_PASSWORD": password,
            "SLIPWAY_ADMIN_USER": USER,
            "SLIPWAY_COMMIT": commit,
            "SLIPWAY_PORT_AIRFLOW": str(settings.ports.airflow),
            "SLIPWAY_BASE_URL": settings.airflow_url,
            **container_environment(settings, GATEWAY),
            **images,
        }
        (folder / ".env").write_text(env_file(values))
        (folder / "kubeconfig").write_text(container_kubeconfig(settings, GATEWAY))
        (folder / "kubeconfig").chmod(0o644)
        (folder / "docker-compose.override.yaml").write_text(yaml.safe_dump(_override()))
        return cls(engine, folder, "slipway-lane", settings.ports.airflow, password)

    def compose(self, *words: str, limit_s: float = 120.0) -> str:
        """Return what `docker compose …` says."""
        where = ("--project-directory", str(self.folder), "--project-name", self.name)
        return self.engine.docker("compose", *where, *words, limit_s=limit_s)

    def configuration(self) -> dict[str, Any]:
        """Return the file as Compose reads it, every variable filled in."""
        document: dict[str, Any] = json.loads(self.compose("config", "--format", "json"))
        return document

    def up(self, *words: str) -> float:
        """Start services and wait until they are healthy; return how many seconds that took."""
        began = time.monotonic()
        self.compose(
            *("up", "--detach", "--no-build", "--wait", "--wait-timeout", str(int(UP_LIMIT_S)), *words),
            limit_s=UP_LIMIT_S + 60,
        )
        return time.monotonic() - began

    def down(self) -> None:
        """End and remove everything, volumes too."""
        self.compose("down", "--volumes", "--timeout", "20", limit_s=DOWN_LIMIT_S)

    def containers(self, service: str) -> list[str]:
        """Return the ids of a service's containers that run."""
        return self.compose("ps", "--quiet", service).split()

    def kill(self, container: str) -> None:
        """End a container's processes by SIGKILL, as the kernel does where memory runs out: Docker starts it anew."""
        pid = int(self.engine.docker("inspect", "--format", "{{.State.Pid}}", container))
        os.kill(pid, signal.SIGKILL)

    def make_user(self, name: str, role: str) -> None:
        """Make a user of Airflow's FAB auth manager, whose password is the admin's."""
        body = {"username": name, "password": self.password, "roles": [{"name": role}]}
        body |= {"first_name": name, "last_name": "of the lane", "email": f"{name}@example.org"}
        url = f"http://{LOOPBACK}:{self.port}/auth/fab/v1/users"
        httpx.post(url, json=body, headers=self.credentials(USER), timeout=_ASK_LIMIT_S).raise_for_status()

    def credentials(self, user: str) -> dict[str, str]:
        """Return the header with which a user's requests go to Airflow."""
        token = access_token(f"http://{LOOPBACK}:{self.port}", user, self.password, _ASK_LIMIT_S)
        return {"Authorization": f"Bearer {token}"}

    def logs(self) -> str:
        """Return the end of what the services have said."""
        return self.compose("logs", "--no-color", "--tail", "4000")


def _bear_a_busy_machine(path: Path) -> None:
    """Give a release file limits that a busy machine keeps to: how fast it is, is not what is tried here."""
    release = yaml.safe_load(path.read_text(encoding="utf-8"))
    release["benchmark"]["slo"]["p99_ms"] = release["benchmark"]["regression_floor_ms"] = SLOW_MS
    release["rollout"] |= {"lease_s": LEASE_S, "max_bake_s": LEASE_S}
    release["rollout"]["analysis"]["latency_margin_percent"] = SLOWER_PERCENT
    path.write_text(yaml.safe_dump(release, sort_keys=False), encoding="utf-8")


def inline_dockerfile() -> str:
    """Return the Dockerfile that stands in docker-compose.yaml."""
    document = yaml.safe_load((PROJECT_ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
    text: str = document["services"]["init"]["build"]["dockerfile_inline"]
    return text.replace("$$", "$")


def _override() -> dict[str, object]:
    """Return what `.env.example` tells operators to add: the kubeconfig; and a network whose gateway is known."""
    mount = {"volumes": [f"./kubeconfig:{KUBECONFIG}:ro"]}
    network = {
        "driver_opts": {"com.docker.network.bridge.name": BRIDGE},
        "ipam": {"config": [{"subnet": f"{GATEWAY.rsplit('.', 1)[0]}.0/24", "gateway": GATEWAY}]},
    }
    return {"services": dict.fromkeys(AIRFLOW_SERVICES, mount), "networks": {"default": network}}
