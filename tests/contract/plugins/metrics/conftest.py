"""A real Prometheus before a real Envoy and two real Tritons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from slipway_sandbox.services.routing import Backend
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.monitoring.prometheus import prometheus_program, start_prometheus
from tests.support.monitoring.served_revisions import CANDIDATE, STABLE, ServedRevisions, envoy_before
from tests.support.serving.models import table_model, write_repository
from tests.support.serving.triton_install import triton_install

__all__ = ["prometheus_program", "start_prometheus"]


@pytest.fixture(scope="module")
def served(prometheus_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedRevisions]:
    """Two Tritons behind an Envoy: stable doubles, the candidate trebles, both fail when asked to."""
    install = triton_install()
    with ExitStack() as stack:
        servers: dict[str, TritonServer] = {}
        for name, factor in ((STABLE, 2.0), (CANDIDATE, 3.0)):
            directory = tmp_path_factory.mktemp(name)
            repository = write_repository(
                directory / "repository", versions={1: table_model(factor)}, more="dynamic_batching { }"
            )
            server = TritonServer(
                install, repository, TritonPorts.free(), log_path=directory / "log", exit_timeout_s=3
            )
            server.start()
            stack.callback(server.stop, 0.5)
            servers[name] = server
        for server in servers.values():
            server.wait_ready(30)
        backends = {name: Backend(name, one.ports.http, one.ports.grpc) for name, one in servers.items()}
        free = TritonPorts.free()
        envoy = stack.enter_context(
            envoy_before(backends, tmp_path_factory.mktemp("router"), (free.http, free.grpc))
        )
        yield ServedRevisions(free.http, free.grpc, envoy, servers)
