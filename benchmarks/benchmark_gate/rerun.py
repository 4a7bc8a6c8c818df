"""One run of the gate as a release has it: the pod's program, its result, the verdict, and more rounds where these do
not decide. The pod is a process of this machine with its image's environment; S3 is moto's.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.benchmark_gate.models import STABLE
from benchmarks.figure import MeasureError
from benchmarks.processes import CREDENTIALS
from benchmarks.sandbox import PROJECT_ROOT
from slipway.pods.benchmark_command import MeasuredModel, MeasuringPlace, benchmark_command
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.gates.benchmark.verdict import BenchmarkVerdict, judge_benchmark
from slipway_core.spec.golden import Golden
from slipway_core.spec.release_file import Benchmark
from slipway_sandbox.host.images import IMAGE_VARIABLES, build_image
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts

BUCKET = "benchmark"
GOLDEN_KEY = "golden.npz"
_POD_LIMIT_S = 900
_POD_SCRIPTS = PROJECT_ROOT / "include" / "pod_scripts"


@dataclass(frozen=True)
class Gate:
    """A release file's benchmark, the server that is measured, and the S3 where results go."""

    benchmark: Benchmark
    ports: TritonPorts
    endpoint: str
    store: Any

    def measure(self, model: str, rounds: int, first_round: int = 1) -> BenchmarkResult:
        """Measure a model and the stable one in turns, by the pod's program.

        :raises MeasureError: the pod did not end well.
        """
        prefix = f"{model}/{time.monotonic_ns()}"
        place = MeasuringPlace(
            grpc_address=f"{LOOPBACK}:{self.ports.grpc}",
            http_address=f"{LOOPBACK}:{self.ports.http}",
            golden_uri=f"s3://{BUCKET}/{GOLDEN_KEY}",
            golden=Golden(),
            destination=f"s3://{BUCKET}/{prefix}",
        )
        program, *arguments = benchmark_command(
            self.benchmark,
            place,
            MeasuredModel(model, 1),
            MeasuredModel(STABLE, 1),
            rounds=rounds,
            first_round=first_round,
        )
        image = build_image("perf-analyzer", report=lambda *_: None)
        done = subprocess.run(
            [str(_POD_SCRIPTS / program), *arguments],
            env={
                **IMAGE_VARIABLES,
                **CREDENTIALS,
                "AWS_ENDPOINT_URL": self.endpoint,
                "PATH": os.pathsep.join([str(_POD_SCRIPTS), str(image / "bin"), os.defpath]),
            },
            capture_output=True,
            text=True,
            timeout=_POD_LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise MeasureError(
                f"the pod ended with {done.returncode}:\n{(done.stdout + done.stderr)[-1500:]}"
            )
        content = self.store.get_object(Bucket=BUCKET, Key=f"{prefix}/result.json")["Body"].read()
        return BenchmarkResult.from_json(json.loads(content))

    def judge(self, model: str) -> BenchmarkVerdict:
        """Measure and judge one attempt, with as many rounds as it takes."""
        parts = [self.measure(model, self.benchmark.rounds)]
        while True:
            verdict = judge_benchmark(BenchmarkResult.together(parts), self.benchmark)
            if not verdict.more_rounds:
                return verdict
            parts.append(self.measure(model, verdict.more_rounds, verdict.pairs + 1))
