"""The emulated cluster as tests start it: a process of its own, on a free port, with everything in one
folder.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kubernetes import client, config

from slipway_sandbox.host.ports import free_port
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
IMAGE = "slipway/tool:0.1.0"
NAMESPACE = "default"
KSERVE = ("serving.kserve.io", "v1beta1", NAMESPACE, "inferenceservices")


class Emulator:
    """One emulated cluster; its only image is the environment that the tests run in."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.token = secrets.token_hex(16)
        self._config = folder / "cluster.json"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "images").mkdir()
        (folder / "images" / "tool").symlink_to(sys.prefix)
        (folder / "scripts").mkdir()
        (folder / "token").write_text(self.token, encoding="utf-8")
        self.settings = {
            "port": free_port(),
            "token_file": "token",
            "state_dir": "state",
            "images_dir": "images",
            "pod_scripts_dir": "scripts",
            "kubeconfig": "kubeconfig",
            **settings,
        }
        self._config.write_text(json.dumps(self.settings), encoding="utf-8")

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"http://127.0.0.1:{self.settings['port']}"

    @property
    def pid(self) -> int:
        """The emulator's process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_started(self) -> bool:
        """Whether it was started at least once."""
        return self._process is not None

    def command(self) -> list[str]:
        """What starts it."""
        return [sys.executable, "-m", "slipway_sandbox.emulator", "--config", str(self._config)]

    def start(self) -> None:
        """Starts it and waits until it listens."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "include")}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), env=environment, stdout=log, stderr=log)
        process = self._process

        def listening() -> bool:
            assert process.poll() is None, (self.folder / "log").read_text()
            return _answers(int(self.settings["port"]))

        wait_until(listening, "the emulator listens")

    def stop(self) -> int:
        """Ends it in the regular way; returns its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def kill(self) -> None:
        """Ends it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)

    def api_client(self) -> client.ApiClient:
        """A client that logs in with the kubeconfig that the emulator wrote."""
        return config.new_client_from_config(str(self.kubeconfig))


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def is_alive(pid: int) -> bool:
    """Whether the process still runs; one that only waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def all_gone(pids: Iterable[int]) -> Callable[[], bool]:
    """A condition: none of the processes runs any more."""
    return lambda: not any(is_alive(pid) for pid in pids)


# What the restricted Pod Security Standard asks of a pod and of each of its containers.
POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod(name: str, *command: str, **spec: Any) -> dict[str, Any]:
    """A pod that runs `command` once; `spec` adds to or replaces parts of its spec."""
    container = {
        "name": "base",
        "image": IMAGE,
        "command": list(command),
        "securityContext": CONTAINER_SECURITY,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": name}},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": POD_SECURITY,
            "containers": [container],
            **spec,
        },
    }


def inference_service(
    name: str, *, uri: str = "s3://models/digits/1/repository", **predictor: Any
) -> dict[str, Any]:
    """An InferenceService for a Triton repository; `predictor` adds to its predictor."""
    model = {"modelFormat": {"name": "triton"}, "runtime": "kserve-tritonserver", "storageUri": uri}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"predictor": {"model": model, **predictor}},
    }
