"""A fleet of real tritonservers with users, the object store they read, and the ways between them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self

from benchmarks.chaos.gates import Loop
from benchmarks.figure import MeasureError
from benchmarks.fleet import model
from benchmarks.fleet.answers import FleetAnswer
from benchmarks.fleet.controller import Controller, context
from benchmarks.fleet.gates import StoreGate
from benchmarks.fleet.job import Job
from benchmarks.fleet.load import FleetLoad
from benchmarks.fleet.plan import OnUnreachable
from benchmarks.fleet.servers import FleetServer
from benchmarks.processes import CREDENTIALS, s3_client
from benchmarks.publishing.measure import object_store
from benchmarks.publishing.process import BUCKET
from benchmarks.sandbox import PROJECT_ROOT
from slipway_core.bucket_layout import repository_paths
from slipway_core.fleet.alias import version_name
from slipway_sandbox.host.images import build_image
from slipway_sandbox.lab.models import publish_files
from slipway_sandbox.services.triton_install import TritonInstall

REPOSITORY = "fleet/repository"
Storage = Literal["gates", "s3", "disk"]
"""Where the servers read their models: in S3, each through a gate of its own; in S3; in a folder."""

ROOT = PROJECT_ROOT / ".sandbox" / "bench" / "fleet"

_FIRST_LIMIT_S = 120.0
_POLL_S = 0.02


class FleetLab:
    """A context manager: inside the `with` version 1 serves users on every server, and releases can be run.

    Use it from the main thread: to the kernel, the parent whose death ends the servers is the thread that started them.

    :param rate_rps: requests a second to each server.
    """

    def __init__(self, servers: int, rate_rps: float, root: Path = ROOT, storage: Storage = "gates") -> None:
        self.root, self._count, self._rate_rps, self._storage = root, servers, rate_rps, storage
        self.version = 0
        self._newest = 0

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        try:
            self._enter()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _enter(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self._folder = self.root / "repository"
        self._folder.mkdir(parents=True)
        self._store_url = self._stack.enter_context(object_store())
        self._s3 = s3_client(self._store_url)
        # In S3 a folder exists when something is in it.
        self._s3.put_object(Bucket=BUCKET, Key=f"{REPOSITORY}/.keep", Body=b"")
        loop = Loop()
        self._stack.callback(loop.close)
        self.own_gate = self._gate(loop)
        names = [f"server_{number}" for number in range(self._count)]
        self.gates = {name: self._gate(loop) for name in names}
        install = TritonInstall.prepare(venv=build_image("triton"))
        self.servers = [self._server(name, install) for name in names]
        self._trained = model.trained()
        self._processes = context()
        for one in self.servers:
            self._stack.callback(one.stop)
            one.start()
        for one in self.servers:
            one.wait_ready()
        self._release_first()
        self._load = self._stack.enter_context(FleetLoad(self.servers, self._rate_rps, self.root))

    def _gate(self, loop: Loop) -> StoreGate:
        gate = StoreGate(loop, self._store_url)
        self._stack.callback(gate.close)
        return gate

    def _server(self, name: str, install: TritonInstall) -> FleetServer:
        store = self.gates[name].url if self._storage == "gates" else self._store_url
        on_disk = self._storage == "disk"
        return FleetServer(
            name,
            str(self._folder) if on_disk else f"s3://{store}/{BUCKET}/{REPOSITORY}",
            install,
            self.root / name,
            {**CREDENTIALS, "AWS_REGION": CREDENTIALS["AWS_DEFAULT_REGION"]},
        )

    def _release_first(self) -> None:
        controller = self.release(self.publish(), "first", "first")
        self.wait(lambda: controller.has_ended, _FIRST_LIMIT_S)
        outcome = controller.outcome
        if outcome is None or outcome["outcome"] != "committed":
            controller.kill()
            raise MeasureError(f"the first version was not released: {outcome} {controller.log_end()}")
        self.version = self._newest

    # --- releases ---

    def publish(self) -> int:
        """Publish the next version, and return it."""
        self._newest += 1
        paths = repository_paths(model.MODEL, self._newest)
        files = {
            paths.config_file: model.config_of(self._newest),
            paths.model_file: model.version_of(self._trained, self._newest),
        }
        publish_files(self._s3, BUCKET, model.MODEL, self._newest, files)
        # Where the servers look for it: each version beside the others, under a name of its own.
        for path, content in files.items():
            place = f"{version_name(model.MODEL, self._newest)}/{path.removeprefix(f'{model.MODEL}/')}"
            self._s3.put_object(Bucket=BUCKET, Key=f"{REPOSITORY}/{place}", Body=content)
            (self._folder / place).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / place).write_bytes(content)
        return self._newest

    def release(
        self,
        version: int,
        run_id: str,
        name: str,
        on_unreachable: OnUnreachable = "fail",
        unreachable_s: float = 30.0,
    ) -> Controller:
        """Begin to release a version; `name` is that of the folder of the process."""
        job = Job(
            model=model.MODEL,
            version=version,
            bucket=BUCKET,
            ports={one.name: (one.ports.http, one.ports.grpc) for one in self.servers},
            environment=self._environment(),
            folder=self.root / "controllers" / name,
            run_id=run_id,
            on_unreachable=on_unreachable,
            unreachable_s=unreachable_s,
        )
        shutil.rmtree(job.folder, ignore_errors=True)
        job.folder.mkdir(parents=True)
        return Controller(self._processes, job)

    def new_answers(self) -> list[FleetAnswer]:
        """Return what users were answered since the last call."""
        return self._load.new_answers()

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of servers and controllers, which the next fleet's would replace."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.root / "controllers", folder / "controllers")
        for one in self.servers:
            for log in one.folder.glob("triton-*.log"):
                shutil.copyfile(log, folder / f"{one.name}-{log.name}")

    def wait(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait until a condition holds; tell whether it does."""
        limit = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > limit:
                return False
            time.sleep(_POLL_S)
        return True

    def _environment(self) -> dict[str, str]:
        connection: dict[str, Any] = {
            "conn_type": "aws",
            "login": CREDENTIALS["AWS_ACCESS_KEY_ID"],
            "password": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            "extra": {"endpoint_url": self.own_gate.url, "region_name": CREDENTIALS["AWS_DEFAULT_REGION"]},
        }
        return {
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection),
            "AIRFLOW_HOME": str(self.root / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        }
