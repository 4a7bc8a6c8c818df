"""mirror_comparison.py behind a real Envoy that mirrors real requests, before real tritonservers."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http

from slipway_core.gates.mirror_comparison import MirrorReport
from slipway_sandbox.host.images import build_image
from slipway_sandbox.host.ports import free_port
from slipway_sandbox.services.routing import Backend, Ingress, Mirror, Routing
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.pods.support import POD_SCRIPTS, ObjectStore, Pod
from tests.support.serving.clients import HOST, ask_grpc, ask_http, body_of, grpc_client
from tests.support.serving.envoy import Envoy, running_envoy
from tests.support.serving.tables import DOUBLE, FAILING, OTHER, running_tables

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio]

SCRIPT = "mirror_comparison.py"
STABLE, CANDIDATE = "table-predictor-00001", "table-predictor-00002"
STABLE_HOST = "prev-table-predictor.models.sandbox.test"
CANDIDATE_HOST = "latest-table-predictor.models.sandbox.test"


@pytest.fixture(scope="module")
def pod(store: ObjectStore) -> Pod:
    return Pod(build_image("mirror-comparison"), store)


@pytest.fixture(scope="module")
def tritons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, TritonServer]]:
    """Servers of one model: stable; one that differs for some inputs; one that fails for some."""
    tables = {"stable": DOUBLE, "other": OTHER, "failing": FAILING}
    with running_tables(tables, tmp_path_factory.mktemp) as servers:
        yield servers


def started(argv: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """The program, whose words are kept."""
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env=environment, stdout=pipe, stderr=pipe, text=True)


@dataclass
class Comparer:
    """The program as it runs, and where it leaves its result."""

    process: subprocess.Popen[str]
    store: ObjectStore
    prefix: str

    async def ended(self, limit_s: float = 120.0) -> int:
        """Its exit code, once it has ended."""
        return await asyncio.to_thread(self.process.wait, limit_s)

    async def report(self) -> dict[str, Any]:
        """Its result, once it has ended well."""
        assert await self.ended() == 0, self.process.stderr and self.process.stderr.read()
        result = json.loads(self.store.read(f"{self.prefix}/result.json"))
        assert result["error"] is None
        MirrorReport.from_json(result)
        return dict(result)


@dataclass
class Stage:
    """An Envoy with all users on stable, a candidate that is shown, and the mirror's ports."""

    envoy: Envoy
    mirror: Mirror
    store: ObjectStore
    pod: Pod
    prefix: str
    backends: tuple[Backend, ...]

    @asynccontextmanager
    async def comparing(self, requests: int, *more: str) -> AsyncIterator[Comparer]:
        """The program, listening; it does not outlive the context."""
        url = f"http://127.0.0.1:{self.envoy.ingress_port}"
        argv = [
            *(str(POD_SCRIPTS / SCRIPT), "--model", "table", "--requests", str(requests)),
            *("--stable-url", url, "--stable-host", STABLE_HOST),
            *("--candidate-url", url, "--candidate-host", CANDIDATE_HOST),
            *("--port", str(self.mirror.http_port), "--grpc-port", str(self.mirror.grpc_port)),
            *("--class-output", "y", "--timeout-s", "100"),
            *("--destination", self.store.url(self.prefix), *more),
        ]
        process = started(argv, self.pod.environment())
        try:
            assert process.stdout is not None
            line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 90)
            assert line.startswith("listen:"), line
            yield Comparer(process, self.store, self.prefix)
        finally:
            process.kill()
            await asyncio.to_thread(process.communicate)

    async def ask(self, firsts: Sequence[float], *, grpc: bool = False) -> list[float]:
        """The factors that users see, one request after the other; 0 where the answer is an error."""
        if not grpc:
            answers = [await asyncio.to_thread(ask_http, self.envoy.ingress_port, first) for first in firsts]
            return [factor for _, factor in answers]
        with grpc_client(self.envoy.ingress_port) as client:
            return [await asyncio.to_thread(ask_grpc, client, first) for first in firsts]


@pytest.fixture
def setting(
    tritons: dict[str, TritonServer], pod: Pod, store: ObjectStore, prefix: str, tmp_path: Path
) -> Any:
    """Sets the stage with one of the servers as the candidate."""

    @asynccontextmanager
    async def set_up(candidate: str) -> AsyncIterator[Stage]:
        ports = TritonPorts.free()
        mirror = Mirror(ports.http, ports.grpc)
        chosen = {STABLE: tritons["stable"], CANDIDATE: tritons[candidate]}
        backends = tuple(Backend(name, one.ports.http, one.ports.grpc) for name, one in chosen.items())
        users = Ingress("models/table", (HOST,), ((STABLE, 100), (CANDIDATE, 0)), mirror=mirror)
        tags = (
            Ingress("models/table/prev", (STABLE_HOST,), ((STABLE, 100),), tag="prev"),
            Ingress("models/table/latest", (CANDIDATE_HOST,), ((CANDIDATE, 100),), tag="latest"),
        )
        async with running_envoy(tmp_path) as envoy:
            await envoy.router.apply(Routing(backends, (users, *tags)))
            yield Stage(envoy, mirror, store, pod, prefix, backends)

    return set_up


async def test_equal_models_answer_alike(setting: Any) -> None:
    """Over HTTP and gRPC, each mirrored request is compared once, nothing differs, and it ends when it has enough."""
    async with setting("stable") as stage, stage.comparing(20) as comparer:
        assert await stage.ask([1.0] * 10) == DOUBLE
        assert await stage.ask([1.0] * 10, grpc=True) == DOUBLE
        report = await comparer.report()
    assert report["ended"] == "enough"
    counts = report["counts"]
    assert (counts["received"], counts["compared"], counts["equal"], counts["agree"]) == (20, 20, 20, 20)
    assert sum(counts.values()) == 80
    assert report["protocols"] == {"http": 10, "grpc": 10}
    assert report["outputs"] == {"y": {"compared": 20, "differ": 0}}
    assert report["differences"] == []
    for side in ("stable", "candidate"):
        latency = report["latency_ms"][side]
        assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"]


async def test_a_known_share_of_differences_is_found_and_named(setting: Any) -> None:
    """Of every ten inputs two differ beyond the tolerances, and one of these changes its class; users see stable."""
    firsts = [float(first) for first in range(10)]
    async with setting("other") as stage, stage.comparing(40) as comparer:
        assert await stage.ask(firsts * 2) == DOUBLE * 2
        assert await stage.ask(firsts * 2, grpc=True) == DOUBLE * 2
        report = await comparer.report()
    counts = report["counts"]
    assert (counts["compared"], counts["equal"], counts["differ"]) == (40, 32, 8)
    assert (counts["agree"], counts["disagree"]) == (36, 4)
    assert report["rows"] == {"compared": 40, "agree": 36}
    assert report["class_changes"] == [{"stable": 0, "candidate": 1, "rows": 4}]
    # Each request once for each protocol, the worst first: 14 against -14, then 2 against 2.2 of x = [3, 1].
    told = [(one["kind"], one["stable"], one["times"]) for one in report["differences"]]
    assert told == [("values", 14.0, 2), ("values", 14.0, 2), ("values", 6.0, 2), ("values", 6.0, 2)]
    assert report["differences"][0]["candidate"] == -14.0
    assert report["differences"][3]["candidate"] == pytest.approx(6.6)
    assert "7.0" not in json.dumps(report["differences"])  # no input of a user is kept


async def test_a_candidate_that_fails_is_counted(setting: Any) -> None:
    """What fails on the candidate alone is told by protocol and kind; what fails on both is nobody's fault."""
    async with setting("failing") as stage, stage.comparing(16) as comparer:
        assert await stage.ask([1.0, 7.0] * 4) == [2.0] * 8
        assert await stage.ask([50.0] * 2) == [0.0] * 2
        assert await stage.ask([1.0, 7.0] * 4, grpc=True) == [2.0] * 8
        report = await comparer.report()
    counts = report["counts"]
    assert (counts["compared"], counts["equal"], counts["candidate_failed"]) == (8, 8, 8)
    assert (counts["both_failed"], counts["stable_failed"]) == (2, 0)
    (http_kind, grpc_kind) = sorted(report["failures"]["candidate"], key=str.lower, reverse=True)
    assert http_kind == "HTTP 500"
    assert grpc_kind.startswith("gRPC ")


async def test_binary_tensors_and_compressed_bodies_are_compared(setting: Any) -> None:
    """Requests with binary tensors, and with packed bodies, reach both versions as they came."""

    def ask(port: int, algorithm: str | None, binary: bool) -> float:
        x = triton_http.InferInput("x", [2, 2], "FP32")
        x.set_data_from_numpy(np.array([[3.0, 1.0], [1.0, 1.0]], np.float32), binary_data=binary)
        y = triton_http.InferRequestedOutput("y", binary_data=binary)
        with triton_http.InferenceServerClient(f"127.0.0.1:{port}") as client:
            answer = client.infer(
                "table",
                [x],
                model_version="1",
                outputs=[y],
                headers={"Host": HOST},
                request_compression_algorithm=algorithm,
            )
        return float(answer.as_numpy("y")[0, 1])

    ways = [(algorithm, binary) for algorithm in (None, "gzip", "deflate") for binary in (True, False)]
    async with setting("other") as stage, stage.comparing(len(ways)) as comparer:
        for algorithm, binary in ways:
            assert await asyncio.to_thread(ask, stage.envoy.ingress_port, algorithm, binary) == 2.0
        report = await comparer.report()
    counts = report["counts"]
    assert (counts["compared"], counts["differ"], counts["ignored"]) == (6, 6, 0)
    assert report["rows"] == {"compared": 12, "agree": 12}
    assert {tuple(one["index"]) for one in report["differences"]} == {(0, 0)}


async def test_what_is_no_question_to_this_model_is_ignored(setting: Any) -> None:
    """Other models, other calls, sequences, and the program's own requests come to nothing."""
    sequence = json.loads(body_of(1.0)) | {"parameters": {"sequence_id": 7}}
    bodies = [
        ("/v2/models/table/infer", json.dumps(sequence).encode(), {}),
        ("/v2/models/other/infer", body_of(1.0), {}),
        ("/v2/models/table/generate", b"{}", {}),
        ("/v2/models/table/infer", body_of(1.0), {"x-slipway-mirror": "1"}),
    ]

    def post(port: int) -> None:
        for path, body, headers in bodies:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                lines = [f"POST {path} HTTP/1.1", f"Host: {HOST}", f"Content-Length: {len(body)}"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
                while connection.recv(65536):
                    pass

    async with setting("stable") as stage, stage.comparing(1) as comparer:
        await asyncio.to_thread(post, stage.envoy.ingress_port)
        with grpc_client(stage.envoy.ingress_port) as client:
            assert await asyncio.to_thread(client.is_model_ready, "table")
        assert await stage.ask([1.0]) == [2.0]
        report = await comparer.report()
    counts = report["counts"]
    assert (counts["received"], counts["ignored"], counts["compared"]) == (6, 5, 1)


async def test_time_is_up_with_too_few(setting: Any) -> None:
    """Without enough requests it ends at its limit, in good order, and tells what it has."""
    async with setting("stable") as stage, stage.comparing(1000, "--timeout-s", "15") as comparer:
        assert await stage.ask([1.0] * 3) == [2.0] * 3
        report = await comparer.report()
    assert report["ended"] == "time"
    assert report["counts"]["compared"] == 3


async def test_too_many_requests_are_dropped_and_counted(setting: Any) -> None:
    """What comes faster than it can be compared is dropped beyond the queue; later requests are compared again."""
    async with (
        setting("stable") as stage,
        stage.comparing(20, "--queue", "1", "--concurrency", "1") as comparer,
    ):
        # Straight to the program, which answers faster than any model does.
        url = f"http://127.0.0.1:{stage.mirror.http_port}/v2/models/table/infer"
        await asyncio.gather(*(asyncio.to_thread(post_once, url) for _ in range(60)))
        while comparer.process.poll() is None:
            assert await stage.ask([1.0]) == [2.0]
        report = await comparer.report()
    counts = report["counts"]
    assert counts["compared"] == 20
    assert 0 < counts["dropped"] <= counts["received"] - 20


def post_once(url: str) -> None:
    """One request; whether it is answered does not matter once the program has enough."""
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    body = body_of(1.0)
    head = (
        f"POST /{path} HTTP/1.1\r\nHost: {name}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    try:
        with socket.create_connection((name, int(port)), timeout=60) as connection:
            connection.sendall(head.encode() + body)
            connection.recv(1024)
    except OSError:
        pass


async def test_a_port_that_is_taken_is_named(pod: Pod, prefix: str) -> None:
    """A port on which somebody listens may be free later: exit 75, and the error names it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for ports in ((port, free_port()), (free_port(), port)):
            run = await asyncio.to_thread(
                pod.run,
                SCRIPT,
                *(
                    "--model",
                    "table",
                    "--stable-url",
                    "http://127.0.0.1:9",
                    "--candidate-url",
                    "http://127.0.0.1:9",
                ),
                *("--port", str(ports[0]), "--grpc-port", str(ports[1])),
                prefix=prefix,
            )
            assert run.exit_code == 75, run.stderr
            assert run.error["kind"] == "TransientError"
            assert str(port) in run.error["what"]


async def test_ended_from_outside_it_leaves_no_result(setting: Any, store: ObjectStore) -> None:
    """A pod that is deleted ends at once, and what it has seen so far is not taken for a result."""
    async with setting("stable") as stage, stage.comparing(1000) as comparer:
        assert await stage.ask([1.0]) == [2.0]
        comparer.process.send_signal(signal.SIGTERM)
        assert await comparer.ended() == 128 + signal.SIGTERM
    assert "result.json" not in store.keys(comparer.prefix)
