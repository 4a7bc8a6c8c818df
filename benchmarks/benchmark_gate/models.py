"""The digits model, a slower one of the same answers, and the server that has them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.figure import MeasureError
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_digit_models.training import train
from slipway_sandbox.host.images import build_image
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall

STABLE, GOOD, SLOWER = "digits_stable", "digits_same", "digits_slower"
_TRIES = 5
_CALIBRATION_ROUNDS = 10
_WIDTH = 256
_LOAD_LIMIT_S = 60
# As in include/releases/digits.yaml.
_CONFIG = """
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: 64
input [ {{ name: "pixels" data_type: TYPE_FP32 dims: [ 64 ] }} ]
output [ {{ name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] }} ]
dynamic_batching {{ max_queue_delay_microseconds: 1000 }}
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""


def slower(content: bytes, steps: int) -> bytes:
    """Return the same model with extra work in its graph: a chain of matrix products that adds 0 to each answer."""
    model = onnx.load_from_string(content)
    graph, output = model.graph, "probabilities"
    for node in graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == output:
                    names[index] = "answer"
    numbers = np.random.default_rng(0)
    for name, array in {
        "work_in": numbers.normal(scale=0.06, size=(64, _WIDTH)),
        "work_matrix": numbers.normal(scale=0.06, size=(_WIDTH, _WIDTH)),
        "work_nothing": np.zeros(1),
    }.items():
        graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    graph.node.append(helper.make_node("MatMul", ["pixels", "work_in"], ["work_0"]))
    for step in range(steps):
        graph.node.append(helper.make_node("MatMul", [f"work_{step}", "work_matrix"], [f"product_{step}"]))
        graph.node.append(helper.make_node("Tanh", [f"product_{step}"], [f"work_{step + 1}"]))
    graph.node.append(helper.make_node("ReduceMean", [f"work_{steps}"], ["work_mean"], axes=[1], keepdims=1))
    graph.node.append(helper.make_node("Mul", ["work_mean", "work_nothing"], ["work_added"]))
    graph.node.append(helper.make_node("Add", ["answer", "work_added"], [output]))
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


@dataclass(frozen=True)
class Served:
    """A server over a folder of its own, which loads what is laid there."""

    server: TritonServer
    folder: Path

    def load(self, name: str, content: bytes) -> None:
        """Lay a model into the repository and load it."""
        version = self.folder / name / "1"
        version.mkdir(parents=True, exist_ok=True)
        (version / "model.onnx").write_bytes(content)
        (self.folder / name / "config.pbtxt").write_text(_CONFIG.format(name=name))
        address = f"http://{LOOPBACK}:{self.server.ports.http}/v2/repository/models/{name}/load"
        with urlopen(Request(address, data=b"{}", method="POST"), timeout=_LOAD_LIMIT_S):
            pass


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Give a tritonserver that has the digits model twice: as the stable version, and as a candidate."""
    folder.mkdir(parents=True, exist_ok=True)
    install = TritonInstall.prepare(venv=build_image("triton"))
    server = TritonServer(
        install,
        folder,
        TritonPorts.free(),
        mode="explicit",
        log_path=folder.with_suffix(".log"),
        exit_timeout_s=3,
    )
    server.start()
    try:
        server.wait_ready(_LOAD_LIMIT_S)
        found = Served(server, folder)
        content = train(2).onnx
        for name in (STABLE, GOOD):
            found.load(name, content)
        yield found
    finally:
        server.stop(grace_s=1)


def add_slower(
    found: Served, percent: float, measure: Callable[[str, int], BenchmarkResult]
) -> tuple[float, bytes]:
    """Load a model that is slower by about `percent`; return by how many percent it is, and the model.

    That is measured before the machine is made busy, by the fastest tenth of the requests, which other work disturbs
    least; nearer each time, since what a step costs depends on the machine.

    :param measure: measures a model beside the stable one, so many rounds.
    :raises MeasureError: it could not be made so.
    """
    content = train(2).onnx
    steps = 150
    for _ in range(_TRIES):
        longer = slower(content, steps)
        found.load(SLOWER, longer)
        is_slower = _slower_percent(measure(SLOWER, _CALIBRATION_ROUNDS))
        if abs(is_slower - percent) <= percent / 10:
            return is_slower, longer
        steps = max(10, round(steps * min(3.0, max(0.3, percent / max(1.0, is_slower)))))
    raise MeasureError(f"{SLOWER} is {is_slower:.0f} % slower, wanted {percent:g} %: is the machine quiet?")


def _slower_percent(result: BenchmarkResult) -> float:
    pairs = result.pairs(result.loads[0])
    ratios = [mine.p10_ms / theirs.p10_ms for mine, theirs in pairs if mine.p10_ms and theirs.p10_ms]
    return 100 * (statistics.median(ratios) - 1)
