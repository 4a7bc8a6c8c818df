"""Configurations that this project writes, loaded by the real tritonserver as far as its Python backend goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http

from slipway_core.spec.serving.serving import Serving
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.build import build_model_config
from slipway_core.triton_config.canonical import canonical_config, config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt, to_pbtxt
from slipway_core.triton_config.warmup import make_warmup
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

_ECHO = """
import json
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.log = json.loads(args["model_config"])["parameters"]["log"]["string_value"]

    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb.get_input_tensor_by_name(request, "x").as_numpy()
            word = pb.get_input_tensor_by_name(request, "word").as_numpy()
            with open(self.log, "a") as log:
                log.write(json.dumps([len(requests), x.tolist(), word.astype(str).tolist()]) + "\\n")
            answers.append(pb.InferenceResponse([pb.Tensor("y", x)]))
        return answers
"""
_COUNTER = """
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.totals = {}

    def execute(self, requests):
        answers = []
        for request in requests:
            x, start, name, zeros = (
                pb.get_input_tensor_by_name(request, key).as_numpy() for key in ("x", "start", "id", "sum_in")
            )
            before = 0 if start.item() else self.totals[name.item()]
            self.totals[name.item()] = total = before + x + zeros
            answers.append(pb.InferenceResponse([pb.Tensor("y", total), pb.Tensor("sum_out", zeros)]))
        return answers
"""
_REPEATER = """
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            sender.send(pb.InferenceResponse([pb.Tensor("y", pb.get_input_tensor_by_name(request, "x").as_numpy())]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
_PAIR = ModelSignature(
    inputs=(
        TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),
        TensorSpec(name="word", datatype="BYTES", shape=(-1, 1)),
    ),
    outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
)
_ONE = ModelSignature(
    inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 1)),),
    outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 1)),),
)
_GOLDEN = {
    "x": np.array([[1, 2], [3, 4]], dtype=np.float32),
    "word": np.array([["one"], ["two"]]),
}


class _Server(TritonServer):
    """A server with a cache and a stock of a resource."""

    def argv(self) -> list[str]:
        return [
            *super().argv(),
            "--cache-config=local,size=1048576",
            "--rate-limit=execution_count",
            "--rate-limit-resource=R:4",
        ]


def _serving(**options: Any) -> Serving:
    return Serving.model_validate_json(json.dumps({"platform": "python", "max_batch_size": 8, **options}))


def _write(
    repository: Path, config: dict[str, Any], program: str, files: dict[str, bytes] | None = None
) -> None:
    folder = repository / config["name"]
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(program)
    (folder / "config.pbtxt").write_text(to_pbtxt(config))
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


def _echo(log: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    serving = _serving(
        dynamic_batching={
            "max_queue_delay_us": 100,
            "preferred_batch_sizes": [4, 8],
            "preserve_ordering": True,
        },
        instances=[
            {
                "count": 2,
                "rate_limiter": {"resources": [{"name": "R", "count": 2, "shared": True}], "priority": 1},
            }
        ],
        response_cache=True,
        optimization={"priority": "max", "eager_batching": True, "output_pinned_memory": False},
        parameters={"log": str(log)},
        metric_tags={"team": "search"},
        warmup=[
            {"name": "golden", "row": 1, "batch_size": 3, "count": 2},
            {"name": "made-up", "data": "random", "inputs": {"word": "zero"}},
        ],
    )
    config = build_model_config("echo", serving, _PAIR, 1, golden=_GOLDEN)
    return config, dict(make_warmup(serving.warmup, config, _GOLDEN).files or {})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("seen") / "requests"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, log: Path) -> dict[str, dict[str, Any]]:
    """The configurations, by name, with the repository that they were written to."""
    repository = tmp_path_factory.mktemp("repository")
    echo, files = _echo(log)
    _write(repository, echo, _ECHO, files)
    serving = _serving(
        sequence_batching={
            "strategy": "oldest",
            "max_candidate_sequences": 8,
            "max_sequence_idle_us": 5_000_000,
            "controls": [
                {"input": "start", "kind": "start", "datatype": "FP32"},
                {"input": "id", "kind": "correlation_id", "datatype": "UINT64"},
            ],
            "states": [{"input": "sum_in", "output": "sum_out", "datatype": "FP32", "dims": [1]}],
        }
    )
    counter = build_model_config("counter", serving, _ONE, 1)
    _write(repository, counter, _COUNTER)
    base = from_pbtxt('backend: "python" max_batch_size: 4 version_policy { all { } }')
    repeater = build_model_config("repeater", Serving.model_validate({"decoupled": True}), _ONE, 1, base=base)
    _write(repository, repeater, _REPEATER)
    base = from_pbtxt('backend: "python" max_batch_size: 4 sequence_batching { }')
    bare = build_model_config("bare", Serving(), _ONE, 1, base=base)
    _write(repository, bare, _REPEATER)
    base = from_pbtxt(
        'backend: "python" max_batch_size: 4 version_policy { } instance_group { kind: KIND_CPU }'
    )
    every = build_model_config("every", Serving(), _ONE, 1, base=base)
    _write(repository, every, _REPEATER)
    (repository / "every" / "2").mkdir()
    (repository / "every" / "2" / "model.py").write_text(_REPEATER)
    names = {"echo": echo, "counter": counter, "repeater": repeater, "bare": bare, "every": every}
    return {**names, "": {"repository": str(repository)}}


@pytest.fixture(scope="module")
def client(
    install: TritonInstall, written: dict[str, dict[str, Any]], log: Path
) -> Iterator[triton_http.InferenceServerClient]:
    server = _Server(install, written[""]["repository"], TritonPorts.free(), log_path=log.with_name("log"))
    server.start()
    try:
        server.wait_ready(60)
        with triton_http.InferenceServerClient(f"127.0.0.1:{server.ports.http}") as one:
            yield one
    finally:
        server.stop(grace_s=0.5)


@pytest.mark.parametrize("name", ["echo", "counter", "repeater", "bare", "every"])
def test_what_is_served_hashes_as_what_was_written(
    client: triton_http.InferenceServerClient, written: dict[str, dict[str, Any]], name: str
) -> None:
    """Cache, rate limiter, warm-up, sequences, decoupled: loaded, and nothing that Triton fills in changes the hash."""
    assert client.is_model_ready(name)
    assert canonical_config(client.get_model_config(name)) == canonical_config(written[name])
    assert config_sha256(client.get_model_config(name)) == config_sha256(written[name])


def test_an_empty_version_policy_serves_every_version(client: triton_http.InferenceServerClient) -> None:
    """`version_policy {}` is a choice, and not that of no policy, which is the latest version."""
    assert client.is_model_ready("every", "1")
    assert client.is_model_ready("every", "2")
    assert config_sha256({"version_policy": {}}) == config_sha256({"version_policy": {"all": {}}})
    assert config_sha256({"version_policy": {}}) != config_sha256({})


def test_each_instance_was_warmed_up_with_the_golden_row(
    client: triton_http.InferenceServerClient, log: Path
) -> None:
    """Two instances, each twice three requests of golden row 1 in one batch, and once made-up data."""
    assert client.is_model_ready("echo")
    seen = [json.loads(line) for line in log.read_text().splitlines()]
    golden = [request for request in seen if request == [3, [[3.0, 4.0]], [["two"]]]]
    assert len(golden) == 2 * 2 * 3
    assert len(seen) >= len(golden) + 2


def cache_hits(client: triton_http.InferenceServerClient) -> int:
    """Return how many requests the model's cache has answered."""
    (statistics,) = client.get_inference_statistics("echo")["model_stats"]
    return int(statistics["inference_stats"]["cache_hit"]["count"])


def test_an_equal_request_is_answered_from_the_cache(client: triton_http.InferenceServerClient) -> None:
    """The second of two equal requests is a hit in the model's statistics."""
    x = triton_http.InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(np.array([[7, 8]], dtype=np.float32))
    word = triton_http.InferInput("word", [1, 1], "BYTES")
    word.set_data_from_numpy(np.array([["hello"]], dtype=object))
    for _ in range(2):
        assert client.infer("echo", [x, word]).as_numpy("y").tolist() == [[7, 8]]
    # A request is counted after it was answered.
    wait_until(lambda: cache_hits(client) == 1, "the hit to be counted")


def test_a_sequence_is_told_by_its_controls(client: triton_http.InferenceServerClient) -> None:
    """The model gets start flag, correlation id and a zeroed state; keeping states is not the Python backend's."""
    totals = []
    for value, start, end in ((1, True, False), (2, False, False), (3, False, True), (5, True, True)):
        x = triton_http.InferInput("x", [1, 1], "FP32")
        x.set_data_from_numpy(np.array([[value]], dtype=np.float32))
        answer = client.infer("counter", [x], sequence_id=42, sequence_start=start, sequence_end=end)
        totals.append(float(answer.as_numpy("y")[0, 0]))
    assert totals == [1, 3, 6, 5]
