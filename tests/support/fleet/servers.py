"""Real tritonservers as a fleet, whose model `table` has a version a folder."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.caller import TritonCaller
from airflow_provider_triton.client.settings import TritonSettings
from airflow_provider_triton.errors import ModelNotLoadedError, ServerUnavailableError
from slipway.fleet import (
    FleetOutcome,
    FleetPolicy,
    FleetRelease,
    FleetStore,
    GoldenRequest,
    StaticMembers,
    release_fleet,
    server_at,
)
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.fleet.alias import version_name
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonServer
from tests.support.serving.models import table_model, write_repository
from tests.support.triton_provider.servers import alive, has_died, running_triton
from tests.support.triton_provider.table import ROW

MODEL = "table"
GOLDEN = GoldenRequest({"x": ROW}, ("y",))
POLICY = FleetPolicy(
    unreachable_s=2.0,
    call_limit_s=2.0,
    load_limit_s=30.0,
    quiet_s=0.1,
    drain_limit_s=30.0,
    settle_limit_s=3.0,
)
# By which factor each version multiplies; version 3 cannot be loaded on the last server, version 4 is another there.
FACTORS = {1: 2.0, 2: 3.0, 3: 4.0, 4: 5.0}


def digest(version: int) -> str:
    """Return what stands for the digest of a version's manifest."""
    return f"{version:064x}"


class TritonFleet:
    """The servers, by name, and a bucket.

    :param members: where a release looks them up.
    """

    def __init__(self, servers: Mapping[str, TritonServer]) -> None:
        self.servers = dict(servers)
        self.settings: dict[str, TritonSettings] = {
            # The first one over HTTP alone, the others with control over gRPC.
            name: server_at(name, LOOPBACK, one.ports.http, grpc_port=None if number == 0 else one.ports.grpc)
            for number, (name, one) in enumerate(servers.items())
        }
        self.members = StaticMembers(self.settings)

    def config(self, version: int) -> dict[str, Any]:
        """Return a version's configuration as it is published."""
        repository = Path(next(iter(self.servers.values())).repository)
        config = from_pbtxt((repository / version_name(MODEL, version) / "config.pbtxt").read_text())
        return {**config, "name": MODEL}

    def release(self, bucket: ModelStoreHook, version: int, run_id: str, **fields: Any) -> FleetRelease:
        """Return the release of a version."""
        given: dict[str, Any] = {
            "members": self.members,
            "store": FleetStore(bucket, "pair", MODEL),
            "permit": lambda: None,
            "golden": GOLDEN,
            "policy": POLICY,
            **fields,
        }
        return FleetRelease(
            fleet="pair",
            model=MODEL,
            version=version,
            manifest_sha256=digest(version),
            configs={MODEL: self.config(version)},
            run_id=run_id,
            **given,
        )

    def bring(self, bucket: ModelStoreHook, version: int, run_id: str, **fields: Any) -> FleetOutcome:
        """Release a version."""
        return asyncio.run(release_fleet(self.release(bucket, version, run_id, **fields)))

    def served(self, names: Sequence[str] = ()) -> dict[str, tuple[str, float] | None]:
        """Return which version each server says it has answered with, and the factor of its answer."""
        return {name: self._answer(name) for name in names or self.servers}

    def _answer(self, name: str) -> tuple[str, float] | None:
        import requests

        body = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
        url = f"http://{self.settings[name].http_address}/v2/models/{MODEL}/infer"
        answer = requests.post(url, json=body, timeout=60)
        if answer.status_code != 200:
            return None
        found = answer.json()
        return found["model_version"], found["outputs"][0]["data"][0]

    def loaded(self, name: str) -> set[str]:
        """Return the names that are ready on a server; what was loaded with files of its own is in no index."""
        index = self.ask(name, calls.index())
        return {one.name for one in index if one.is_ready}

    def ask(self, name: str, call: Any) -> Any:
        """Send a call to a server."""
        return TritonCaller(self.settings[name], 20.0).ask(call)

    def unload_all(self) -> None:
        """Unload whatever is loaded; a server that has died has nothing loaded, and is started anew.

        On a busy machine Triton's Python backend may abort its server while it unloads a model: an instance that is
        finalized ends in an uncaught `boost::interprocess::lock_exception`.

        :raises ServerUnavailableError: a server that lives does not answer.
        """
        for name, server in self.servers.items():
            try:
                self._unload(name)
            except ServerUnavailableError:
                if not has_died(server, within_s=10):
                    raise
            alive(server)

    def _unload(self, name: str) -> None:
        for model in (MODEL, f"{MODEL}_next", *(version_name(MODEL, one) for one in FACTORS)):
            try:
                self.ask(name, calls.unload(model))
            except ModelNotLoadedError:
                continue

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Have a server hang while the context lasts."""
        self.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(name, signal.SIGCONT)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a server."""
        process = self.servers[name].process
        assert process is not None
        os.kill(process.pid, number)


class Users:
    """One user of each server, while the context lasts; their answers are kept, None for one that failed."""

    def __init__(self, fleet: TritonFleet) -> None:
        self.answers: list[tuple[str, float] | None] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(fleet, name)) for name in fleet.servers]

    def _ask(self, fleet: TritonFleet, name: str) -> None:
        while not self._ended.is_set():
            self.answers += fleet.served([name]).values()

    def __enter__(self) -> Users:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)


def write_versions(repository: Path, *, is_last: bool = False) -> None:
    """Write the repository of a server: each version in a folder of its own name.

    :param is_last: version 3 is broken, and version 4 another than the others'.
    """
    for version, factor in FACTORS.items():
        content = table_model(factor + 1 if version == 4 and is_last else factor)
        content = b"no model" if version == 3 and is_last else content
        name = version_name(MODEL, version)
        write_repository(repository, name=name, versions={version: content}, more="")
    write_repository(repository, versions={1: table_model(FACTORS[1])}, more="")


@contextmanager
def running_fleet(folder: Callable[[str], Path], count: int = 3) -> Iterator[TritonFleet]:
    """Run servers while the context lasts; the last one has a broken version 3 and another version 4."""
    with ExitStack() as stack:
        servers = {}
        for number in range(count):
            here = folder(f"fleet{number}")
            write_versions(here / "repository", is_last=number == count - 1)
            servers[f"s{number}"] = stack.enter_context(running_triton(here / "repository", here / "log"))
        yield TritonFleet(servers)
