"""convert_tensorrt.py over an S3 on loopback, with doubles of NVIDIA's programs: not run on a GPU yet."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from slipway_core.publishing.engine import EngineBuild, engine_of
from slipway_core.triton_config.checks.contradictions import contradictions
from slipway_sandbox.host.images import build_image
from tests.support.pods.doubles import TensorRtDouble
from tests.support.pods.onnx_models import ROWS, classifier
from tests.support.pods.support import ObjectStore, Pod, PodRun

RANDOM = np.random.default_rng(11)


class _Pod(Pod):
    """A pod of the image `onnx`, which has all but NVIDIA's own, with the doubles in front."""

    double: TensorRtDouble

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        return self.double.environment(super().environment(endpoint))


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> TensorRtDouble:
    image = build_image("onnx")
    return TensorRtDouble.make(tmp_path_factory.mktemp("nvidia"), image / "bin" / "python")


@pytest.fixture
def pod(store: ObjectStore, double: TensorRtDouble) -> _Pod:
    double.set_mood()
    double.set_gpus("NVIDIA L4, 8.9, 580.65.06")
    pod = _Pod(build_image("onnx"), store, (double.folder,))
    pod.double = double
    return pod


@pytest.fixture(scope="module")
def inputs(store: ObjectStore) -> list[str]:
    rows = RANDOM.random((ROWS, 4)).astype(np.float32)
    golden = store.put_arrays("tensorrt/golden.npz", X=rows, label=np.zeros(ROWS, np.int64))
    return ["--source", store.put("tensorrt/model.onnx", classifier()), "--golden", golden]


def convert(pod: Pod, inputs: list[str], prefix: str, *more: str) -> PodRun:
    return pod.run("convert_tensorrt.py", *inputs, *more, prefix=prefix)


def test_an_engine_is_built_compared_and_described(
    pod: _Pod, inputs: list[str], store: ObjectStore, prefix: str
) -> None:
    """The result has the machine, the profile, the signature, the parity table and the engine's digest."""
    run = convert(pod, inputs, prefix, "--precision", "fp16", "--max-batch-size", "16")
    assert (run.exit_code, run.result and run.result["outcome"]) == (0, "pass"), run.stderr
    assert run.result is not None
    assert engine_of(run.result) == EngineBuild(
        gpu="NVIDIA L4", compute_capability="8.9", tensorrt="10.13.2.6", driver="580.65.06", cuda=None
    )
    assert run.result["profiles"] == [{"min": {"X": [1, 4]}, "opt": {"X": [16, 4]}, "max": {"X": [16, 4]}}]
    assert run.result["model"]["file"] == "model.plan"
    assert store.read(f"{prefix}/model.plan") == classifier_bytes(store)
    assert [entry["output"] for entry in run.result["parity"]] == ["probabilities", "label"]
    assert all(entry["pass"] and entry["rows"] == ROWS for entry in run.result["parity"])
    assert [tensor["name"] for tensor in run.result["signature"]["inputs"]] == ["X"]
    assert max(pod.double.rows) == 16
    command = pod.double.seen["argv"]
    assert command[:2] == ["polygraphy", "convert"]
    assert command[command.index("--trt-max-shapes") + 1] == "X:[16, 4]"
    too_large = contradictions({"max_batch_size": 32}, profiles=run.result["profiles"])
    assert [found.field for found in too_large] == ["max_batch_size"]


def classifier_bytes(store: ObjectStore) -> bytes:
    return store.read("tensorrt/model.onnx")


def test_an_engine_that_answers_otherwise_is_refused(
    pod: _Pod, inputs: list[str], store: ObjectStore, prefix: str
) -> None:
    """An engine beyond the tolerance ends with exit code 4, the worst rows, and no engine in the store."""
    pod.double.set_mood(offset=0.05)
    run = convert(pod, inputs, prefix, "--abs-tolerance", "0.01")
    assert run.exit_code == 4
    assert run.error["kind"] == "ParityRefusedError"
    assert run.result is not None
    worst = {entry["output"]: entry["worst"] for entry in run.result["parity"]}
    assert len(worst["probabilities"]) == 5
    assert worst["label"] == []
    assert "model.plan" not in store.keys(prefix)


def test_a_profile_with_a_smallest_batch_is_fed_enough(pod: _Pod, inputs: list[str], prefix: str) -> None:
    """Where the profile begins above one row, the last row is repeated and its answers are dropped."""
    shapes = '{"X": {"min": [8, 4], "opt": [32, 4], "max": [32, 4]}}'
    run = convert(pod, inputs, prefix, "--profile", shapes)
    assert run.exit_code == 0, run.stderr
    assert min(pod.double.rows) == 8


def test_caches_travel_by_s3(pod: _Pod, inputs: list[str], store: ObjectStore, prefix: str) -> None:
    """Timings are kept by GPU and TensorRT, scales by the model; the next build uses both."""
    rows = store.put_arrays("tensorrt/calibration.npz", X=RANDOM.random((50, 4)).astype(np.float32))
    int8 = ["--precision", "int8", "--calibration", rows, "--max-batch-size", "16", "--opt-batch-size", "8"]
    caches = ["--timing-cache", store.url("timings"), "--calibration-cache", store.url("scales")]
    first = convert(pod, inputs, f"{prefix}/1", *int8, *caches)
    assert first.exit_code == 0, first.stderr
    assert pod.double.seen["batches"] == [{"X": [8, 4]}] * 6
    key = "timings/nvidia-l4-sm8.9-trt10.13.2.6.cache"
    assert store.read(key) == b"timed,"
    assert first.result is not None
    source = first.result["inputs"][inputs[inputs.index("--source") + 1]]
    assert store.read(f"scales/{source['sha256']}.cache") == b"scales"
    second = convert(pod, inputs, f"{prefix}/2", *int8, *caches)
    assert second.result is not None
    assert second.result["build"]["timing_cache"] == "used"
    assert "--load-timing-cache" in pod.double.seen["argv"]
    assert "--data-loader-script" not in pod.double.seen["argv"]
    assert store.read(key) == b"timed,timed,"


@pytest.mark.parametrize(
    ("mood", "more", "kind", "words"),
    [
        ({"fail": "Unsupported operator: NonZero"}, (), "ModelInvalidError", "Unsupported operator"),
        ({"hang": True}, ("--timeout-s", "6"), "TimedOutError", "in time"),
        ({"eat": 900}, ("--memory-mib", "700"), "UserError", "more memory"),
    ],
)
def test_a_builder_that_fails_hangs_or_eats_is_told(
    pod: _Pod,
    inputs: list[str],
    prefix: str,
    mood: dict[str, Any],
    more: tuple[str, ...],
    kind: str,
    words: str,
) -> None:
    """What the builder said last, the limit it ran into: in the result, in time, and without an engine."""
    pod.double.set_mood(**mood)
    started = time.monotonic()
    run = convert(pod, inputs, prefix, *more)
    assert run.error["kind"] == kind, run.error
    assert words in f"{run.error['what']} {run.error['found']}"
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--profile", '{"Y": {"min": [1, 4], "opt": [1, 4], "max": [1, 4]}}'), "'Y' is no input"),
        (("--profile", '{"X": {"min": [1, 5], "opt": [1, 5], "max": [1, 5]}}'), "the model takes [-1, 4]"),
    ],
)
def test_a_profile_that_does_not_fit_is_told(
    pod: _Pod, inputs: list[str], prefix: str, more: tuple[str, ...], words: str
) -> None:
    """A profile of another model ends before the build."""
    run = convert(pod, inputs, prefix, *more)
    assert run.exit_code == 3
    assert words in run.error["found"]
    assert not (pod.double.folder / "seen.json").exists()


def test_a_pod_without_a_gpu_says_so(pod: _Pod, inputs: list[str], prefix: str) -> None:
    """No GPU: what to ask for in the release file."""
    pod.double.set_gpus()
    run = convert(pod, inputs, prefix)
    assert run.exit_code == 3
    assert "conversion.resources.gpu" in run.error["remedy"]


def test_int8_without_scales_is_wrong_usage(pod: _Pod, inputs: list[str], prefix: str) -> None:
    """Without calibration the builder would invent scales: refused by the command line."""
    run = convert(pod, inputs, prefix, "--precision", "int8")
    assert run.exit_code == 2
    assert "--calibration" in run.stderr
