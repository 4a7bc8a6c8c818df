"""Two tritonservers beside the cluster, which one model's users ask directly: a fleet, as `fleet_release` finds it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.caller import TritonCaller
from slipway.fleet import server_at
from slipway_core.fleet.alias import alias_config, alias_files, version_name
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.settings import MARKER, SandboxSettings, object_store_environment
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.triton_install import triton_install

_READY_LIMIT_S = 60.0
# A server that is made to hang answers when it goes on.
_ANSWER_LIMIT_S = 300.0
_REST_S = 0.2


@dataclass(frozen=True)
class Answer:
    """What a user was answered: the version that the server names, or the failure."""

    server: str
    version: str | None
    failure: str = ""


@dataclass
class FleetUsers:
    """One user of each server, who asks some times a second while the context lasts."""

    model: str
    ports: Mapping[str, int]
    answers: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make a thread for each user."""
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask_all, args=one) for one in self.ports.items()]

    def __enter__(self) -> FleetUsers:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for one in self._threads:
            one.join(_ANSWER_LIMIT_S)

    def _ask_all(self, server: str, port: int) -> None:
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_ANSWER_LIMIT_S)
        while not self._end.wait(_REST_S):
            self.answers.append(self._asked(server, connection))
        connection.close()

    def _asked(self, server: str, connection: http.client.HTTPConnection) -> Answer:
        tensor = {"name": "pixels", "datatype": "FP32", "shape": [1, 64], "data": [[0.0] * 64]}
        try:
            connection.request("POST", f"/v2/models/{self.model}/infer", json.dumps({"inputs": [tensor]}))
            answer = connection.getresponse()
            document = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            return Answer(server, None, repr(error))
        if answer.status != http.client.OK:
            return Answer(server, None, f"{answer.status} {document}")
        return Answer(server, document["model_version"])


@contextmanager
def fleet_servers(
    settings: SandboxSettings, names: Sequence[str], repository: str
) -> Iterator[dict[str, TritonServer]]:
    """Run servers over a model repository in the sandbox's bucket while the context lasts, by their names.

    :param repository: the prefix in the bucket.
    """
    environment = {**object_store_environment(settings), MARKER: str(settings.root)}
    with ExitStack() as stack:
        servers = {}
        for name in names:
            server = TritonServer(
                triton_install(),
                f"s3://{settings.object_store_url}/{settings.bucket}/{repository}",
                TritonPorts.free(),
                mode="explicit",
                environment=environment,
                log_path=Path(settings.log_dir) / f"{name}.log",
                exit_timeout_s=1,
            )
            server.start()
            stack.callback(server.stop)
            servers[name] = server
        for server in servers.values():
            server.wait_ready(_READY_LIMIT_S)
        yield servers


@contextmanager
def hanging(server: TritonServer) -> Iterator[None]:
    """Have a server and its models' processes hang while the context lasts."""
    assert server.process is not None
    os.killpg(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(server.process.pid, signal.SIGCONT)


def point(server: TritonServer, model: str, version: int) -> None:
    """Have a server give its users another version, as a load does that it carries out late."""
    settings = server_at("late", LOOPBACK, server.ports.http, grpc_port=server.ports.grpc)
    caller, name = TritonCaller(settings, _ANSWER_LIMIT_S), version_name(model, version)
    caller.ask(calls.load(name))
    alias = alias_config(caller.ask(calls.config(name)), model, version, "0" * 64)
    caller.ask(calls.load(model, alias, alias_files(version)))


def loaded(server: TritonServer) -> set[str]:
    """Return the names that are ready on a server."""
    connection = http.client.HTTPConnection(LOOPBACK, server.ports.http, timeout=_ANSWER_LIMIT_S)
    try:
        connection.request("POST", "/v2/repository/index", json.dumps({"ready": True}))
        return {one["name"] for one in json.loads(connection.getresponse().read())}
    finally:
        connection.close()
