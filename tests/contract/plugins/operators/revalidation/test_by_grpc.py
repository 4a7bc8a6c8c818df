"""The checks of a live version whose users ask by gRPC, on a real tritonserver."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slipway.hooks.grpc_live.server import LiveGrpcServer
from slipway.hooks.ingress import Endpoint
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.golden_asking import live_server as asked_by
from slipway.operators.revalidation.golden_check import (
    GoldenParts,
    check_answers,
    check_latency,
    check_signature,
)
from slipway.operators.revalidation.published_check import check_configuration
from slipway.registry.registry import ModelRegistry
from slipway_core.errors import ServerUnavailableError
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.ports import LOOPBACK, free_port
from slipway_sandbox.services.triton import TritonServer
from tests.support.release.revalidation_run import MODEL, RELEASE_FILE

pytestmark = pytest.mark.timeout(600)


def parts(store: ModelStoreHook, port: int) -> GoldenParts:
    """What the checks need, with the server at a port that speaks gRPC."""
    spec = parse_release_spec(RELEASE_FILE, "rent.yaml")
    server = asked_by("grpc", Endpoint(f"http://{LOOPBACK}:{port}", "rent.models.example"), 10)
    assert isinstance(server, LiveGrpcServer)
    return GoldenParts(store, spec, ModelRegistry(store).require(MODEL, 1), server)


def test_tensors_answers_latency_and_configuration_are_checked(
    store: ModelStoreHook, server: TritonServer
) -> None:
    """As over HTTP: the published tensors and configuration, right answers, and a reference of latencies is kept."""
    asked = parts(store, server.ports.grpc)
    assert check_signature(asked).outcome == "passed"
    answers = check_answers(asked, None)
    assert (answers.outcome, "Against the labels" in answers.summary) == ("no_reference", True)
    now = datetime.now(UTC)
    assert check_latency(asked, now=now, run_id="first").outcome == "no_reference"
    assert check_latency(asked, now=now, run_id="second").outcome == "passed"
    registry = ModelRegistry(store)
    assert check_configuration(asked.server, registry, asked.manifest, 2).outcome == "passed"


def test_a_port_that_speaks_no_grpc_is_no_answer(store: ModelStoreHook, server: TritonServer) -> None:
    """The port of HTTP, and one on which nobody listens: nothing passes, and the error says where to look."""
    for port in (server.ports.http, free_port()):
        with pytest.raises(ServerUnavailableError, match="h2c"):
            check_signature(parts(store, port))
