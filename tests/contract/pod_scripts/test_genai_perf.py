"""benchmark_genai_perf.py with the real genai-perf, on a small decoupled text model in a real tritonserver."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_sandbox.services.triton import TritonServer
from tests.support.pods.support import ObjectStore, Pod, PodRun
from tests.support.pods.tokenizer import MAKE_TOKENIZER, TOKENIZER_CONFIG

pytestmark = [pytest.mark.genai, pytest.mark.slow]
TOKENS = 8


@pytest.fixture(scope="module")
def tokenizer(genai_pod: Pod, store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tokenizer of ten words, in S3."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    python = str(genai_pod.image / "bin" / "python")
    subprocess.run([python, "-c", MAKE_TOKENIZER, str(path)], check=True, timeout=60)
    store.put("genai/tokenizer/tokenizer.json", Path(path).read_bytes())
    store.put("genai/tokenizer/tokenizer_config.json", json.dumps(TOKENIZER_CONFIG).encode())
    return store.url("genai/tokenizer")


def measure(pod: Pod, server: TritonServer, tokenizer: str, prefix: str, *more: str) -> PodRun:
    named = ["--candidate", "story", "--candidate-version", "1", "--backend", "tensorrtllm"]
    named += [] if "--no-streaming" in more else ["--streaming"]
    size = [
        "--requests",
        "10",
        "--rounds",
        "1",
        "--warmup-requests",
        "3",
        "--output-tokens-mean",
        str(TOKENS),
    ]
    address = [
        "--server",
        f"127.0.0.1:{server.ports.grpc}",
        "--tokenizer",
        tokenizer,
        "--input-tokens-mean",
        "5",
    ]
    return pod.run("benchmark_genai_perf.py", *address, *named, *size, *more, prefix=prefix)


def test_streamed_text(
    genai_pod: Pod, triton: TritonServer, store: ObjectStore, tokenizer: str, prefix: str
) -> None:
    """Candidate and baseline get their time to first token and between tokens, in the form that the gate reads."""
    golden = store.put_arrays("genai/golden.npz", text_input=np.array([["the quick fox"], ["a lazy dog"]]))
    baseline = ["--baseline", "story", "--baseline-version", "1", "--golden", golden]
    run = measure(genai_pod, triton, tokenizer, prefix, *baseline)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    measurements = BenchmarkResult.from_json(run.result).measurements
    assert [measurement.role for measurement in measurements] == ["candidate", "baseline"]
    for measurement in measurements:
        assert (measurement.requests, measurement.errors) == (10, 0)
        assert measurement.ttft_ms is not None
        assert measurement.itl_ms is not None
        # The model sleeps 2 ms before each word.
        assert 2 <= measurement.itl_ms.p50_ms < measurement.p50_ms
        assert 2 <= measurement.ttft_ms.p50_ms < measurement.p50_ms
        assert measurement.p50_ms >= 2 * TOKENS
    assert store.keys(prefix) == {"result.json", "raw/candidate-1.json", "raw/baseline-1.json"}


def test_over_generate_without_a_golden_set(
    genai_pod: Pod, triton: TritonServer, tokenizer: str, prefix: str
) -> None:
    """Triton's generate endpoint is measured with synthetic prompts."""
    over_http = ["--endpoint-type", "generate", "--http-server", f"127.0.0.1:{triton.ports.http}"]
    run = measure(genai_pod, triton, tokenizer, prefix, *over_http)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    (measurement,) = BenchmarkResult.from_json(run.result).measurements
    assert measurement.requests == 10
    assert measurement.ttft_ms is not None


def test_text_in_one_piece(genai_pod: Pod, triton: TritonServer, tokenizer: str, prefix: str) -> None:
    """Without streaming there is a latency but no time to first token."""
    over_http = ["--endpoint-type", "generate", "--http-server", f"127.0.0.1:{triton.ports.http}"]
    run = measure(genai_pod, triton, tokenizer, prefix, *over_http, "--candidate", "echo", "--no-streaming")
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    (measurement,) = BenchmarkResult.from_json(run.result).measurements
    assert (measurement.requests, measurement.ttft_ms, measurement.itl_ms) == (10, None, None)
    assert measurement.p50_ms > 0


def test_a_candidate_that_refuses_requests(
    genai_pod: Pod, triton: TritonServer, tokenizer: str, prefix: str
) -> None:
    """A refusal in the middle of a run, on which the load generator hangs, refuses the candidate without delay."""
    run = measure(genai_pod, triton, tokenizer, prefix, "--candidate", "moody")
    assert run.exit_code == 4
    assert run.error["kind"] == "BenchmarkRefusedError"
    assert "moody version 1" in run.error["what"]


def test_a_model_that_takes_no_text(
    genai_pod: Pod, triton: TritonServer, tokenizer: str, prefix: str
) -> None:
    """A model of tensors is sent to the other load generator, before any request."""
    run = measure(genai_pod, triton, tokenizer, prefix, "--candidate", "tabular")
    assert run.exit_code == 3
    assert "text_input" in run.error["found"]
    assert "perf_analyzer" in run.error["remedy"]


def test_no_tokenizer(genai_pod: Pod, triton: TritonServer, store: ObjectStore, prefix: str) -> None:
    """A tokenizer that is not where the release file says is named with its place."""
    run = measure(genai_pod, triton, store.url("genai/none"), prefix)
    assert run.exit_code == 3
    assert run.error["kind"] == "InputMissingError"
    assert "s3://slipway/genai/none" in run.error["what"]
