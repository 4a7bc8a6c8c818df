"""Measurements of a tuning: each a pod of its own with perf_analyzer, as the benchmark gate has them.

Imported by a task that runs, never where DAG files are read: both Kubernetes clients come with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from slipway.hooks.s3_store import ModelStoreHook
from slipway.pods.benchmark_command import MeasuredModel, MeasuringPlace, benchmark_command
from slipway.pods.description import ReleasePod
from slipway.registry.registry import GOLDEN_FILE
from slipway.release_run import ReleaseRun
from slipway.tuning.search import Wanted
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import SlipwayError
from slipway_core.gates.benchmark.result import BenchmarkResult, Measurement
from slipway_core.gates.pod_report import RESULT_LIMIT_BYTES, pod_result
from slipway_core.spec.benchmark import Benchmark
from slipway_core.tuning.trials import Point
from slipway_rules.pod_files import RESULT_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context

    from slipway.pods.execution import PodExecution

_ROLES = ("candidate", "baseline")
# Of a measurement at a request rate: a server that does not keep up takes longer than the requests do to be sent.
_SLACK, _LEAST_S = 3, 90
_WARM_UP_REQUESTS = 20


class PodMeasure:
    """Measures in pods, one after the other; a result that lies in the bucket is not measured again.

    :param prefix: the run's folder.
    :param server: the staging server's gRPC address.
    :param execution_of: makes the pod's execution of its description.
    :param attempt: Airflow's number of this try: the pod of a try that was killed is not taken for this one's.
    """

    def __init__(
        self,
        context: Context,
        release_run: ReleaseRun,
        store: ModelStoreHook,
        prefix: str,
        server: str,
        execution_of: Callable[[ReleasePod], PodExecution],
        attempt: int,
    ) -> None:
        self._context = context
        self._run = release_run
        self._store = store
        self._prefix = prefix
        self._server = server
        self._execution_of = execution_of
        self._attempt = attempt
        self._execution: PodExecution | None = None

    def __call__(self, wanted: Wanted) -> list[list[Point]]:
        """Return the points of each of the models; see `Measure`."""
        key = f"{self._prefix}{wanted.folder}{RESULT_FILE}"
        kept = self._kept(key)
        if kept is None or kept.get("error") is not None:
            kept = self._measured(wanted, key)
        if kept.get("error") is not None:
            raise SlipwayError.from_dict(kept["error"])
        return points_of(kept, wanted)

    def kill(self) -> None:
        """Delete the pod that is under way."""
        if self._execution is not None:
            self._execution.kill()

    def _measured(self, wanted: Wanted, key: str) -> Mapping[str, Any]:
        self._store.delete(key)
        benchmark = _settings(self._run, wanted)
        pod = ReleasePod(
            kind="benchmark",
            stage="tune",
            settings=benchmark,
            command=lambda: self._command(benchmark, wanted),
            result_key=key,
            attempt=100 * wanted.number + min(self._attempt, 99),
        )
        execution = self._execution = self._execution_of(pod)
        execution.start(self._context)
        result = self._kept(key)
        if result is None:
            return {"error": execution.silent_end(self._store.uri(key)).to_dict()}
        return result

    def _kept(self, key: str) -> Mapping[str, Any] | None:
        found = self._store.read_json(key, most_bytes=RESULT_LIMIT_BYTES)
        return None if found is None else pod_result(found, self._store.uri(key))

    def _command(self, benchmark: Benchmark, wanted: Wanted) -> list[str]:
        run = self._run
        place = MeasuringPlace(
            grpc_address=self._server,
            http_address="",
            golden_uri=run.uri(f"{repository_paths(run.model, run.version).root}{GOLDEN_FILE}"),
            golden=run.spec.golden,
            destination=run.uri(f"{self._prefix}{wanted.folder}".rstrip("/")),
        )
        return measuring_command(benchmark, place, wanted, run.version)


def measuring_command(benchmark: Benchmark, place: MeasuringPlace, wanted: Wanted, version: int) -> list[str]:
    """Return the command of the pod that makes a measurement."""
    candidate, *others = (MeasuredModel(name, version) for name in wanted.models)
    return benchmark_command(
        benchmark,
        place,
        candidate,
        others[0] if others else None,
        loads=[wanted.load],
        rounds=wanted.rounds,
        first_round=wanted.first_round,
    )


def points_of(result: Mapping[str, Any], wanted: Wanted) -> list[list[Point]]:
    """Return the points in a pod's `result.json` of each of the models that were asked for.

    :raises SlipwayError: it is no such report. The fault is the pod's.
    """
    measured = BenchmarkResult.from_json(result).measurements
    return [[_point(one) for one in measured if one.role == role] for role in _ROLES[: len(wanted.models)]]


def _point(measured: Measurement) -> Point:
    return Point(
        round=measured.round,
        load=measured.load,
        requests=measured.requests,
        errors=measured.errors,
        throughput_rps=measured.throughput_rps,
        p50_ms=measured.p50_ms,
        p90_ms=measured.p90_ms,
        p95_ms=measured.p95_ms,
        p99_ms=measured.p99_ms,
    )


def _settings(run: ReleaseRun, wanted: Wanted) -> Benchmark:
    """Return the release file's benchmark for one measurement, at a rate with the time that sending takes.

    perf_analyzer was seen to hang near saturation: then the pod ends soon, and the task is tried again.
    """
    benchmark, requests = run.spec.benchmark, run.spec.tuning.requests_at(wanted.load)
    timeout_s, rate = benchmark.timeout_s, wanted.load.request_rate_rps
    if rate is not None:
        sending_s = len(wanted.models) * wanted.rounds * (requests + _WARM_UP_REQUESTS) / rate
        timeout_s = math.ceil(_SLACK * sending_s) + _LEAST_S
    return benchmark.model_copy(update={"requests": requests, "timeout_s": timeout_s})
