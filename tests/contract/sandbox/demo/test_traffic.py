"""The traffic client against real servers: two Tritons behind a real Envoy, over HTTP and gRPC."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from slipway_core.spec.release_file import parse_release_spec
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.build import build_config
from slipway_core.triton_config.pbtxt import to_pbtxt
from slipway_digit_models.images import live_images
from slipway_digit_models.training import train
from slipway_sandbox.demo.counts import CandidateSpan, Traffic
from slipway_sandbox.demo.traffic import TrafficClient, digit_requests
from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.host.ports import free_port
from slipway_sandbox.load.clients import Outcome, clients
from slipway_sandbox.services.router import Router, envoy_argv
from slipway_sandbox.services.routing import Backend, Ingress, Routing
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall
from tests.support.serving.triton_install import triton_install
from tests.support.waiting import wait_until

AUTHORITY = "digits.models.sandbox.slipway"
LIMIT_S = 60.0
REVISIONS = {2: "digits-predictor-00002", 3: "digits-predictor-00003"}


@dataclass(frozen=True)
class Digits:
    """Versions 2 and 3 behind the router, and the way to shift traffic between them."""

    port: int
    shift: Callable[[int], None]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Digits]:
    """Version 2 has all the traffic at first; `shift(percent)` gives version 3 its share."""
    folder = tmp_path_factory.mktemp("digits")
    install = triton_install()
    with ExitStack() as stack:
        servers = {version: started(install, folder / str(version), version, stack) for version in REVISIONS}
        ingress, admin = free_port(), free_port()
        argv = envoy_argv(folder / "router", ingress, admin)
        log = stack.enter_context((folder / "envoy.log").open("wb"))
        envoy = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
        stack.callback(envoy.wait, 10)
        stack.callback(envoy.terminate)
        router = Router(folder / "router", f"http://127.0.0.1:{admin}")
        backends = tuple(
            Backend(REVISIONS[version], server.ports.http, server.ports.grpc)
            for version, server in servers.items()
        )

        def shift(percent: int) -> None:
            weights = ((REVISIONS[2], 100 - percent), (REVISIONS[3], percent))
            asyncio.run(router.apply(Routing(backends, (Ingress("models/digits", (AUTHORITY,), weights),))))

        asyncio.run(router.wait_ready())
        shift(0)
        yield Digits(ingress, shift)


def started(install: TritonInstall, folder: Path, version: int, stack: ExitStack) -> TritonServer:
    """A ready server of one version, ended with the stack."""
    spec = parse_release_spec("model: digits\nsource: {}\n", "digits.yaml")
    signature = ModelSignature(
        inputs=(TensorSpec(name="pixels", datatype="FP32", shape=(-1, 64)),),
        outputs=(
            TensorSpec(name="label", datatype="INT64", shape=(-1,)),
            TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 10)),
        ),
    )
    model = folder / "repository" / "digits"
    (model / str(version)).mkdir(parents=True)
    (model / str(version) / "model.onnx").write_bytes(train(version).onnx)
    (model / "config.pbtxt").write_text(to_pbtxt(build_config(spec, signature, version)))
    ports = TritonPorts.free()
    server = TritonServer(install, folder / "repository", ports, log_path=folder / "log", exit_timeout_s=3)
    server.start()
    stack.callback(server.stop)
    server.wait_ready()
    return server


async def ask_once(port: int, authority: str, protocol: str) -> Outcome:
    """Send the first image over one protocol."""
    async with clients(port, authority, "digits", digit_requests(live_images())) as over:
        return await next(one for one in over if one.protocol == protocol).ask(0)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_either_protocol_finds_the_service_by_its_name(digits: Digits, protocol: str) -> None:
    """HTTP by its Host header and gRPC by its authority reach the service; another name reaches nothing."""
    drawn = live_images().images.label[0]
    answer = await ask_once(digits.port, AUTHORITY, protocol)
    assert (answer.error, answer.version, answer.value) == (None, "2", drawn)
    assert answer.revision == REVISIONS[2]
    assert (await ask_once(digits.port, "cats.models.sandbox.slipway", protocol)).error


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_a_server_that_is_not_there_is_an_answer_with_an_error(protocol: str) -> None:
    """A refused connection is counted like any failure, and raises nothing."""
    answer = await ask_once(free_port(), AUTHORITY, protocol)
    assert answer.error
    assert answer.revision is None


def test_a_bad_candidate_is_counted_against_itself(digits: Digits, tmp_path: Path) -> None:
    """Under constant traffic nothing fails on version 2; what version 3 fails is counted as version 3's alone."""
    output = tmp_path / "traffic.jsonl"
    with TrafficClient(
        port=digits.port,
        authority=AUTHORITY,
        model="digits",
        rate_rps=80,
        output=output,
        sandbox_root=tmp_path,
    ) as client:
        wait_until(lambda: client.traffic().last.requests >= 80, "traffic", LIMIT_S)
        assert client.traffic().last.failed == 0
        begin = time.time()
        digits.shift(50)
        wait_until(lambda: met_by_both(client.traffic()), "version 3 to fail both protocols", LIMIT_S)
        digits.shift(0)
        end = time.time() + 1.0  # what was under way may fail yet
        seen = client.traffic().last.requests
        wait_until(lambda: client.traffic().last.requests >= seen + 80, "more traffic", LIMIT_S)
    counted = client.traffic()
    assert set(counted.last.by_protocol) == {"http", "grpc"}
    assert set(counted.last.answered_by) == {"2", "3"}
    assert counted.failed_on([CandidateSpan(3, begin, end)]) == {3: counted.last.failed}
    assert all("look_up" in failure.error for failure in counted.failures)
    assert counted.last.wrong / counted.last.requests < 0.1


def met_by_both(traffic: Traffic) -> bool:
    """Tell whether version 3 has failed requests of both protocols, and answered one."""
    failed = {failure.protocol for failure in traffic.failures}
    return failed == {"http", "grpc"} and "3" in traffic.last.answered_by
