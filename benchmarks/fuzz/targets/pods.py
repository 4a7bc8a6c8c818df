"""What pods leave in their result.json, and the archives that they unpack."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.fuzz import mutate
from benchmarks.fuzz.documents import json_bytes
from benchmarks.fuzz.target import Target
from slipway_core.errors import SlipwayError
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.gates.benchmark.verdict import judge_benchmark
from slipway_core.gates.parity import parse_parity, require_parity, worst_figures
from slipway_core.publishing.conversion_result import parse_converted, require_same_service
from slipway_core.spec.release_file import Benchmark
from slipway_pod.conversion.source_files import _unpack
from slipway_pod.errors import PodError

_TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1, 2]}
_FILE = {"size_bytes": 3, "sha256": "a" * 64, "parts": {"size_bytes": 16777216, "sha256": f"{'A' * 43}="}}
_RESULT: dict[str, Any] = {
    "outcome": "pass",
    "error": None,
    "signature": {"inputs": [_TENSOR], "outputs": [{**_TENSOR, "name": "y"}]},
    "tools": {"numpy": "2"},
    "inputs": {"s3://b/incoming/top/4/model.pt": {"size_bytes": 9, "sha256": "b" * 64}},
    "hub": {"name": "a/b", "revision": "c"},
    "engine": {"gpu": "NVIDIA L4", "compute_capability": "8.9", "tensorrt": "10.8.0.43"},
    "profiles": [{"min": {"x": [1, 2]}, "opt": {"x": [4, 2]}, "max": {"x": [8, 2]}}],
    "parity": [
        {"output": "y", "max_abs_diff": 0.1, "max_rel_diff": None, "rows": 3, "mismatched_rows": 0, "pass": True,
         "worst": [{"row": 1}]}
    ],
}  # fmt: skip
_RESULTS = (
    {**_RESULT, "model": {"file": "model.onnx", **_FILE}},
    {
        **_RESULT,
        "repository": {"files": [{"path": "top/4/model.py", **_FILE}], "configs": {"top": "name: 'top'"}},
    },
)
_CONFIG = {
    "name": "top",
    "max_batch_size": 8,
    "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}],
    "instance_group": [{"kind": "KIND_GPU", "count": 1}],
}
_ROUND = {
    "role": "candidate", "round": 0, "concurrency": 2, "requests": 100, "errors": 1, "throughput_rps": 50.0,
    "avg_ms": 1.0, "p50_ms": 1.0, "p90_ms": 2.0, "p95_ms": 2.5, "p99_ms": 3.0, "ttft_ms": None,
    "itl_ms": {"avg_ms": 1.0, "p50_ms": 1.0, "p90_ms": 2.0, "p95_ms": 2.5, "p99_ms": 3.0},
}  # fmt: skip
_BENCHMARK = {"measurements": [_ROUND, {**_ROUND, "role": "stable"}], "tools": {"perf_analyzer": "2"}}


def _read_conversion(value: Any) -> None:
    if not isinstance(value, dict):
        return
    try:
        outputs = parse_parity(value.get("parity"))
        worst_figures(outputs)
        require_parity(outputs, "top", answered=["y"])
    except SlipwayError:
        pass
    made = parse_converted(value, "top", 4)
    require_same_service(_CONFIG, [made])


def _read_benchmark(value: Any) -> None:
    for given in (value, json_bytes(value)):
        verdict = judge_benchmark(BenchmarkResult.from_json(given), Benchmark())
        json.dumps(verdict.to_dict())


@cache
def _archives() -> tuple[bytes, ...]:
    files = {"model.py": b"x = 1\n" * 50, "config/a.json": b"{}", "weights.bin": bytes(300)}
    made = []
    for way in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", way) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        made.append(buffer.getvalue())
    for mode in ("w:", "w:gz"):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        made.append(buffer.getvalue())
    return tuple(made)


def _unpack_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        suffix = "zip" if content[:1] == b"P" else "tar.gz"
        archive = Path(folder) / f"source.{suffix}"
        archive.write_bytes(content)
        _unpack(archive, Path(folder) / "into", 4 * 1024 * 1024)


TARGETS = (
    Target("conversion_result", lambda: list(_RESULTS), mutate.tree, _read_conversion),
    Target("benchmark_result", lambda: [_BENCHMARK], mutate.tree, _read_benchmark),
    Target("source_archive", lambda: list(_archives()), mutate.some_bytes, _unpack_bytes, (PodError,)),
)
