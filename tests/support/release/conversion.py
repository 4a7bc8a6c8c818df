"""Conversions whose pods are emulated: what a converter leaves, and what the record says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ConvertModelOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway_core.spec.release_file import apply_overrides, parse_release_spec

CONTEXT: Any = {}
ENGINES = """
model: ranker
source: {format: onnx}
conversion:
  target: tensorrt
  choose: fastest
  variants:
    half: {}
    whole: {precision: fp32}
serving: {platform: tensorrt_plan, max_batch_size: 16, instances: [{kind: gpu}]}
"""
GOOD: dict[str, Any] = {
    "output": "y",
    "max_abs_diff": 0.001,
    "max_rel_diff": 0.01,
    "rows": 2,
    "mismatched_rows": 0,
    "pass": True,
}
OFF = {**GOOD, "mismatched_rows": 1, "pass": False, "worst": [{"row": 1, "source": 1, "converted": 2}]}
RESULT: dict[str, Any] = {
    "outcome": "pass",
    "error": None,
    "signature": {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}],
    },
    "profiles": [{"min": {"x": [1, 2]}, "opt": {"x": [8, 2]}, "max": {"x": [16, 2]}}],
    "engine": {"gpu": "NVIDIA L4", "compute_capability": "8.9", "tensorrt": "10.13.2.6"},
    "tools": {"tensorrt": "10.13.2.6"},
    "parity": [GOOD],
    "latency": {"p50_ms": 0.2},
}
Pods = Callable[..., list[str]]


def engines_that_differ(store: ModelStoreHook) -> Callable[[ConvertModelOperator], dict[str, Any]]:
    """A converter as TensorRT is: no two builds have the same bytes; whole is now slower, now faster than half."""
    builds = iter(range(100))

    def convert(operator: ConvertModelOperator) -> dict[str, Any]:
        build = next(builds)
        body = f"engine {operator.variant}, build {build}".encode()
        store.write(f"{operator.release_run.work_prefix}model.plan", body)
        digest = hashlib.sha256(body).hexdigest()
        model = {"file": "model.plan", "size_bytes": len(body), "sha256": digest}
        faster = "half" if build < 2 else "whole"
        return {**RESULT, "model": model, "latency": {"p50_ms": 0.1 if operator.variant == faster else 0.2}}

    return convert


def release_run_of(bucket: str, release_id: str = "manual__1", **parts: Any) -> ReleaseRun:
    spec = apply_overrides(parse_release_spec(ENGINES, "ranker.yaml"), parts, "the test")
    return ReleaseRun(release_id=release_id, model="ranker", version=1, bucket=bucket, spec=spec, stable=None)


def one_conversion(bucket: str) -> ReleaseRun:
    """A release without variants."""
    spec = parse_release_spec("model: ranker\nsource: {format: onnx}\n", "ranker.yaml")
    return release_run_of(bucket).model_copy(update={"spec": spec})


def converting(release_run: ReleaseRun, variant: str = "half") -> ConvertModelOperator:
    return ConvertModelOperator(
        task_id="convert", variant=variant, release=release_run.model_dump_json(), namespace="models"
    )


def outcomes(store: ModelStoreHook, release_run: ReleaseRun) -> dict[str, str]:
    """How each stage of the release ended, by its record."""
    events = ReleaseRecord(store, "ranker", 1, release_run.release_id).events()
    ended = (event for event in events if event.kind == "stage_finished")
    return {
        event.data.stage: event.data.outcome for event in ended if event.release_id == release_run.release_id
    }


def evidence(store: ModelStoreHook, name: str) -> dict[str, Any]:
    found = store.read_json(f"models/ranker/1/evidence/manual__1/{name}")
    assert found is not None, name
    return dict(found)
