"""A real MLflow server on loopback, with a data base of SQLite and a folder of artifacts; it can be stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from slipway_sandbox.host.images import build_image
from slipway_sandbox.host.ports import LOOPBACK, free_port

START_LIMIT_S = 120.0
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # By default it sends webhooks to https at public addresses alone.
    "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http",
    "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
    "MLFLOW_WEBHOOK_CACHE_TTL": "1",
    "MLFLOW_WEBHOOK_REQUEST_MAX_RETRIES": "0",
}


class MlflowServer:
    """The server, and what people do in its registry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://{LOOPBACK}:{self.port}"
        self.artifacts = folder / "artifacts"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = build_image("mlflow") / "bin" / "mlflow"
        command = [str(program), "server", "--host", LOOPBACK, "--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self.folder / 'registry.db'}"]
        command += ["--artifacts-destination", str(self.artifacts), "--gunicorn-opts", "--timeout 120"]
        environment = {**os.environ, **_SETTINGS, "HOME": str(self.folder)}
        environment["PATH"] = f"{program.parent}{os.pathsep}{environment['PATH']}"
        environment.pop("PYTHONPATH", None)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        limit = time.monotonic() + START_LIMIT_S
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < limit, f"not within {START_LIMIT_S:.0f} s: MLflow answers"
            time.sleep(0.2)

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It keeps its connections and answers nothing, as long as the block runs."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def connection(self, **fields: Any) -> str:
        """Return an Airflow connection to it, as JSON."""
        return json.dumps({"conn_type": "http", "host": LOOPBACK, "port": self.port, **fields})

    def register(
        self,
        name: str,
        files: Mapping[str, bytes],
        run_files: Mapping[str, bytes] | None = None,
        folder: str = "model",
    ) -> int:
        """Log files in a run, and register them as a new version; return its number."""
        run = self.call("runs/create", experiment_id="0")["run"]["info"]
        root = str(run["artifact_uri"]).removeprefix("mlflow-artifacts:/")
        logged = {f"{folder}/{path}": content for path, content in files.items()} | dict(run_files or {})
        for path, content in logged.items():
            url = f"{self.url}/api/2.0/mlflow-artifacts/artifacts/{quote(f'{root}/{path}')}"
            with urlopen(Request(url, data=content, method="PUT"), timeout=30):
                pass
        self.ensure(name)
        answer = self.call(
            "model-versions/create", name=name, source=f"{run['artifact_uri']}/{folder}", run_id=run["run_id"]
        )
        return int(answer["model_version"]["version"])

    def ensure(self, name: str) -> None:
        """Create the registered model unless it is there."""
        try:
            self.call("registered-models/create", name=name)
        except HTTPError as error:
            if "RESOURCE_ALREADY_EXISTS" not in error.read().decode():
                raise

    def folder_of(self, name: str, version: int) -> Path:
        """Return where the server keeps the artifacts of a version."""
        source = str(self.version(name, version)["source"])
        return self.artifacts / source.removeprefix("mlflow-artifacts:/")

    def promote(self, name: str, version: int, alias: str = "candidate") -> None:
        """Set an alias, as a person does who promotes a version."""
        self.call("registered-models/alias", name=name, alias=alias, version=str(version))

    def aliases(self, name: str) -> dict[str, int]:
        """Return which version each alias leads to."""
        model = self.get("registered-models/get", name=name)["registered_model"]
        return {one["alias"]: int(one["version"]) for one in model.get("aliases", ())}

    def tags(self, name: str, version: int) -> dict[str, str]:
        """Return the tags of a version."""
        return {one["key"]: one["value"] for one in self.version(name, version).get("tags", ())}

    def version(self, name: str, version: int) -> dict[str, Any]:
        """Return a version as the server tells it."""
        found: dict[str, Any] = self.get("model-versions/get", name=name, version=version)["model_version"]
        return found

    def webhook(self, url: str, secret: str) -> None:
        """Let the server tell an address of every alias that is set."""
        events = [{"entity": "MODEL_VERSION_ALIAS", "action": "CREATED"}]
        self.call("webhooks", name="slipway", url=url, secret=secret, events=events)

    def get(self, call: str, **asked: Any) -> Any:
        """Ask the server."""
        with urlopen(f"{self.url}/api/2.0/mlflow/{call}?{urlencode(asked)}", timeout=30) as answer:
            return json.load(answer)

    def call(self, call: str, **fields: Any) -> Any:
        """Tell the server."""
        headers = {"Content-Type": "application/json"}
        body = json.dumps(fields).encode()
        request = Request(f"{self.url}/api/2.0/mlflow/{call}", data=body, headers=headers, method="POST")
        with urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/health", timeout=2):
                return True
        except OSError:
            return False


@contextmanager
def running_mlflow(folder: Path) -> Iterator[MlflowServer]:
    """A server with everything in one folder, as long as the block runs."""
    server = MlflowServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
