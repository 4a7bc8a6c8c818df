"""benchmark_perf_analyzer.py against a real tritonserver, with the real perf_analyzer."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pytest

from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_sandbox.host.ports import free_port
from slipway_sandbox.services.triton import TritonServer
from tests.support.pods.support import POD_SCRIPTS, ObjectStore, Pod, PodRun

SCRIPT = "benchmark_perf_analyzer.py"


@pytest.fixture(scope="module")
def golden(store: ObjectStore) -> str:
    rows = np.random.default_rng(0).random((40, 4)).astype(np.float32)
    return store.put_arrays("perf/golden.npz", X=rows, label=np.zeros(40, np.int64))


def measure(pod: Pod, server: TritonServer, golden: str, prefix: str, *more: str) -> PodRun:
    address = f"127.0.0.1:{server.ports.grpc}"
    fixed = ["--candidate", "tabular", "--candidate-version", "1", "--requests", "60", "--rounds", "1"]
    return pod.run(SCRIPT, "--server", address, "--golden", golden, *fixed, *more, prefix=prefix)


def test_candidate_and_baseline_take_turns(
    perf_pod: Pod, triton: TritonServer, store: ObjectStore, golden: str, prefix: str
) -> None:
    """Each round measures both models, the other one first each time, in the form that the gate reads."""
    baseline = ["--baseline", "tabular", "--baseline-version", "1", "--rounds", "2"]
    run = measure(perf_pod, triton, golden, prefix, *baseline)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    measurements = BenchmarkResult.from_json(run.result).measurements
    order = [(measurement.role, measurement.round) for measurement in measurements]
    assert order == [("candidate", 1), ("baseline", 1), ("baseline", 2), ("candidate", 2)]
    for measurement in measurements:
        assert measurement.requests == 60
        assert measurement.errors == 0
        assert 0 < measurement.p50_ms <= measurement.p90_ms <= measurement.p95_ms <= measurement.p99_ms
        # perf_analyzer itself would say 60 requests a second, whatever the server does.
        assert measurement.throughput_rps > 100
    assert {"raw/candidate-1.json", "raw/baseline-2.json"} <= store.keys(prefix)


def test_request_rates_are_swept(
    perf_pod: Pod, triton: TritonServer, store: ObjectStore, golden: str, prefix: str
) -> None:
    """Of several request rates the first is measured in every round, at least a second long, the others once."""
    more = ["--request-rate", "80", "50", "--rounds", "2", "--first-round", "1"]
    run = measure(perf_pod, triton, golden, prefix, *more)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    result = BenchmarkResult.from_json(run.result)
    assert result.generator == "perf_analyzer"
    found = [(one.request_rate_rps, one.round, one.requests) for one in result.measurements]
    assert found == [(80, 1, 80), (50, 1, 60), (80, 2, 80)]
    # Sent by a schedule: never faster, however fast the server answers.
    assert all(one.throughput_rps < 1.3 * (one.request_rate_rps or 0) for one in result.measurements)
    assert store.keys(prefix) >= {"raw/candidate-1.json", "raw/candidate-1-rate-50.json"}


def test_figures_follow_from_the_raw_time_stamps(
    perf_pod: Pod, triton: TritonServer, store: ObjectStore, golden: str, prefix: str
) -> None:
    """Throughput and percentiles can be recomputed from the stored time stamps of the single requests."""
    run = measure(perf_pod, triton, golden, prefix)
    assert run.result is not None
    measurement = run.result["measurements"][0]
    spans = json.loads(store.read(f"{prefix}/raw/candidate-1.json"))["requests_ns"]
    latencies_ms = [(end - start) / 1e6 for start, end in spans]
    seconds = (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e9
    assert measurement["throughput_rps"] == pytest.approx(60 / seconds, rel=1e-3)
    assert measurement["avg_ms"] == pytest.approx(np.mean(latencies_ms), rel=1e-3)
    assert measurement["p99_ms"] == pytest.approx(max(latencies_ms), rel=1e-3)
    expected = np.percentile(latencies_ms, 90, method="inverted_cdf")
    assert measurement["p90_ms"] == pytest.approx(expected, rel=1e-3)


def test_a_candidate_that_fails_requests_is_refused(
    perf_pod: Pod, triton: TritonServer, store: ObjectStore, prefix: str
) -> None:
    """A request that the candidate answers with an error refuses it, in the server's own words."""
    rows = np.zeros((8, 4), np.float32)
    rows[5] = 9
    run = measure(perf_pod, triton, store.put_arrays("perf/high.npz", X=rows), prefix)
    assert run.exit_code == 4
    assert run.error["kind"] == "BenchmarkRefusedError"
    assert "value out of range" in run.error["found"]


def test_a_model_that_answers_over_streams(
    perf_pod: Pod, triton: TritonServer, store: ObjectStore, prefix: str
) -> None:
    """A decoupled model is measured to its last answer; what its configuration calls optional may be left out."""
    url = store.put_arrays("perf/texts.npz", text_input=np.array(["one two three", "four five"]))
    chosen = ["--candidate", "story", "--candidate-version", "1", "--requests", "20", "--rounds", "1"]
    address = f"127.0.0.1:{triton.ports.grpc}"
    run = perf_pod.run(SCRIPT, "--server", address, "--golden", url, *chosen, prefix=prefix)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    (measurement,) = run.result["measurements"]
    assert (measurement["requests"], measurement["errors"]) == (20, 0)
    assert measurement["p50_ms"] > 0


def test_wrong_golden_columns(perf_pod: Pod, triton: TritonServer, store: ObjectStore, prefix: str) -> None:
    """A golden set without the model's input is the person's to fix: it names what is missing and what is there."""
    url = store.put_arrays("perf/wrong.npz", pixels=np.zeros((3, 4), np.float32))
    run = measure(perf_pod, triton, url, prefix)
    assert run.exit_code == 3
    assert run.error["kind"] == "GoldenSetError"
    assert "X" in run.error["what"]
    assert run.error["found"] == "pixels"


def test_a_model_that_is_not_loaded(perf_pod: Pod, triton: TritonServer, golden: str, prefix: str) -> None:
    """A version that the server does not serve may yet come: try again later, and the message names it."""
    run = measure(perf_pod, triton, golden, prefix, "--candidate-version", "7")
    assert run.exit_code == 75
    assert run.error["kind"] == "ServerUnavailableError"
    assert "tabular version 7" in run.error["what"]


def test_no_server(perf_pod: Pod, golden: str, prefix: str) -> None:
    """A server that does not answer in time is a reason to try again later."""
    address = f"127.0.0.1:{free_port()}"
    named = ["--candidate", "tabular", "--candidate-version", "1", "--golden", golden]
    run = perf_pod.run(SCRIPT, "--server", address, *named, "--timeout-s", "1", prefix=prefix)
    assert run.exit_code == 75
    assert run.error["kind"] == "ServerUnavailableError"
    assert address in run.error["what"]


def test_time_limit_keeps_what_was_measured(
    perf_pod: Pod, triton: TritonServer, golden: str, prefix: str
) -> None:
    """When time is up the load generator is gone, and the rounds that were finished are still told."""
    run = measure(perf_pod, triton, golden, prefix, "--rounds", "100", "--timeout-s", "6")
    assert run.exit_code == 75
    assert run.error["kind"] == "TimedOutError"
    assert run.result is not None
    assert 1 <= len(run.result["measurements"]) < 100
    assert not [process for process in psutil.process_iter(["cmdline"]) if drives(process, triton)]


def drives(process: psutil.Process, server: TritonServer) -> bool:
    command = process.info["cmdline"] or []
    return f"127.0.0.1:{server.ports.grpc}" in command and any("perf_analyzer" in word for word in command)


def test_sigterm_takes_the_load_generator_along(
    perf_pod: Pod, triton: TritonServer, store: ObjectStore, golden: str, prefix: str
) -> None:
    """A pod that is deleted in the middle of a measurement leaves no load generator behind."""
    address = f"127.0.0.1:{triton.ports.grpc}"
    command = [str(POD_SCRIPTS / SCRIPT), "--server", address, "--candidate", "tabular"]
    command += ["--candidate-version", "1", "--golden", golden, "--requests", "1000000"]
    command += ["--destination", store.url(prefix)]
    with subprocess.Popen(command, env=perf_pod.environment(), stdout=subprocess.DEVNULL) as pod:
        children = wait_for_children(pod, "perf_analyzer")
        pod.send_signal(signal.SIGTERM)
        assert pod.wait(120) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(children, timeout=90)
    assert not alive


def wait_for_children(pod: subprocess.Popen[bytes], name: str) -> list[psutil.Process]:
    """Waits until the pod has a child that runs the program, at most 90 s."""
    parent = psutil.Process(pod.pid)
    for _ in range(900):
        found = [child for child in parent.children(recursive=True) if Path(child.exe()).name == name]
        if found:
            return found
        with pytest.raises(subprocess.TimeoutExpired):
            pod.wait(0.1)
    raise AssertionError(f"no {name} within 90 s")


def test_usage(perf_pod: Pod, golden: str, prefix: str) -> None:
    """A baseline without its version, and fewer requests than run at once, are wrong usage."""
    named = ["--server", "127.0.0.1:1", "--golden", golden]
    named += ["--candidate", "a", "--candidate-version", "1"]
    run = perf_pod.run(SCRIPT, *named, "--baseline", "b", prefix=prefix)
    assert (run.exit_code, run.result) == (2, None)
    run = perf_pod.run(SCRIPT, *named, "--requests", "2", "--concurrency", "4", prefix=prefix)
    assert (run.exit_code, run.result) == (2, None)
    assert "--concurrency" in run.stderr
