"""A model whose users ask by gRPC: the emulated KServe leads to one port for HTTP/2; real Tritons and a real Envoy."""

from __future__ import annotations

import asyncio
import json
from typing import cast
from urllib.parse import urlsplit

import numpy as np
import pytest

from slipway.hooks.grpc_live.server import LiveGrpcServer
from slipway.hooks.ingress import IngressHook
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic import golden_replay
from slipway.traffic.deployed import require_protocol_deployed
from slipway.traffic.golden_replay import GoldenReplay, grpc_request
from slipway.traffic.golden_requests.grpc_requests import output_of, unary_body
from slipway.traffic.reconciler import observe_service
from slipway_core.errors import ServerUnavailableError, UserError
from slipway_core.rollout.next_action import FirstDeploy, Promote, ShowCandidate, StartCanary
from slipway_core.rollout.servers.protocol import protocol_fields
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.tensors import ModelSignature, TensorSpec
from tests.support.serving.clients import ask_grpc, ask_http, grpc_client
from tests.support.serving.published import BETTER, GOOD
from tests.support.serving.serving_stack import NAME, ServingStack, manifest

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

MODES = pytest.mark.parametrize("mode", ["Knative", "Standard"])
FILE = "model: table\nsource: {format: onnx}\nrollout: {namespace: models, protocol: PROTOCOL}\n"
SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),),
    outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
)
ROW = {"x": np.array([[1.0, 1.0]], dtype=np.float32)}


def first(mode: str) -> FirstDeploy:
    """The first version, in a mode."""
    service = manifest(GOOD)
    service["spec"]["predictor"]["model"] |= protocol_fields("grpc")
    service["metadata"]["annotations"] = {
        "serving.kserve.io/deploymentMode": mode,
        "serving.kserve.io/enable-tag-routing": "true",
    }
    return FirstDeploy(service)


@pytest.fixture(autouse=True)
def _ingress(serving_stack: ServingStack, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "http", "host": "127.0.0.1", "port": serving_stack.envoy.ingress_port}
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_INGRESS", json.dumps(connection))


def live(url: str) -> LiveGrpcServer:
    return LiveGrpcServer(IngressHook().endpoint(url), 10)


@MODES
async def test_users_are_led_by_grpc_through_a_whole_canary(serving_stack: ServingStack, mode: str) -> None:
    """Preview, first percent and promotion: answers come over gRPC alone, and the live servers tell what they serve."""
    await serving_stack.reach(first(mode))
    with grpc_client(serving_stack.envoy.ingress_port) as client:
        assert await asyncio.to_thread(ask_grpc, client) == 2.0
    status, _ = await asyncio.to_thread(ask_http, serving_stack.envoy.ingress_port)
    assert status >= 500, "the one port speaks HTTP/2"
    turn = await serving_stack.reach(ShowCandidate(BETTER, release_id="table-2", version=2))
    assert turn.observed is not None
    candidate = live(turn.observed.candidate_url)
    assert (await asyncio.to_thread(candidate.metadata, NAME))["versions"] == ["1"]
    assert (await asyncio.to_thread(candidate.config, NAME))["name"] == NAME
    (reply,) = await asyncio.to_thread(candidate.infer_each, [unary_body(NAME, SIGNATURE, ROW)])
    answered = output_of(reply.body, "y")
    assert answered is not None
    assert (reply.fault, float(answered[0, 1])) == ("", 3.0)
    at = turn.observed.generation
    await serving_stack.reach(StartCanary(BETTER, 50, release_id="table-2", generation=at))
    await serving_stack.reach(Promote(BETTER))
    with grpc_client(serving_stack.envoy.ingress_port) as client:
        assert await asyncio.to_thread(ask_grpc, client) == 3.0


async def test_golden_requests_are_replayed_by_grpc(
    serving_stack: ServingStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both revisions answer at their own addresses, and every answer is counted as good."""
    await serving_stack.reach(first("Knative"))
    turn = await serving_stack.reach(ShowCandidate(BETTER, release_id="table-2", version=2))
    assert turn.observed is not None
    spec = parse_release_spec(FILE.replace("PROTOCOL", "grpc"), "table.yaml")
    request = grpc_request(NAME, SIGNATURE, ROW)
    monkeypatch.setattr(golden_replay, "load_requests", lambda *_: [request])
    release_run = ReleaseRun(
        release_id="table-2", model=NAME, version=2, bucket="slipway", spec=spec, stable=None
    )
    replay = GoldenReplay(release_run, cast(ModelRegistry, None), IngressHook())
    stop = asyncio.Event()
    running = asyncio.create_task(replay.run(turn.observed.stable_url, turn.observed.candidate_url, stop))
    try:
        await asyncio.wait({running}, timeout=3)
    finally:
        stop.set()
    window = await running
    assert window is not None, replay.obstacle
    assert min(window.stable.requests, window.candidate.requests) > 0
    assert (window.stable.errors, window.candidate.errors) == (0, 0)


async def test_a_revision_that_does_not_answer_grpc_is_an_error(serving_stack: ServingStack) -> None:
    """A host that leads nowhere, and a model that is not there, are never taken for an answer."""
    await serving_stack.reach(first("Knative"))
    with pytest.raises(ServerUnavailableError):
        await asyncio.to_thread(live("http://nobody.models.sandbox.test").metadata, NAME)
    url = f"http://{urlsplit('http://table.models.sandbox.test').netloc}"
    with pytest.raises(ServerUnavailableError, match=r"NOT_FOUND|not found|unknown model"):
        await asyncio.to_thread(live(url).config, "other")
    (reply,) = await asyncio.to_thread(live(url).infer_each, [unary_body("other", SIGNATURE, ROW)])
    assert reply.fault


async def test_a_release_is_refused_whose_file_names_another_protocol(
    serving_stack: ServingStack, caplog: pytest.LogCaptureFixture
) -> None:
    """What is deployed tells which it is; for a file that agrees the log names what else stays as it is."""
    await serving_stack.reach(first("Knative"))
    observed = await asyncio.to_thread(observe_service, serving_stack.hook)
    assert observed is not None
    http = parse_release_spec(FILE.replace("PROTOCOL", "http"), "table.yaml")
    with pytest.raises(UserError, match=r"rollout\.protocol: grpc"):
        require_protocol_deployed(http, observed)
    require_protocol_deployed(parse_release_spec(FILE.replace("PROTOCOL", "grpc"), "table.yaml"), observed)
    assert "`service_account` is not set, in the release file slipway-models" in caplog.text
