"""The command of the pod that measures: one model version, or two in turns, at the release file's load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipway_core.spec.golden import Golden
from slipway_core.spec.load import LoadLevel
from slipway_core.spec.release_file import Benchmark, TextGeneration


@dataclass(frozen=True)
class MeasuredModel:
    """A model version as the server knows it."""

    name: str
    version: int


@dataclass(frozen=True)
class MeasuringPlace:
    """Where is measured, with what, and where the result goes.

    :ivar golden_uri: the golden set that the requests are made of.
    :ivar destination: below it `result.json` is written, which is a `gates.benchmark.result.BenchmarkResult`.
    """

    grpc_address: str
    http_address: str
    golden_uri: str
    golden: Golden
    destination: str


def benchmark_command(
    benchmark: Benchmark,
    place: MeasuringPlace,
    candidate: MeasuredModel,
    baseline: MeasuredModel | None = None,
    *,
    loads: Sequence[LoadLevel] | None = None,
    rounds: int | None = None,
    first_round: int = 1,
) -> list[str]:
    """Return ``benchmark_GENERATOR.py`` and its arguments.

    :param candidate: what is measured; alone where no baseline is given.
    :param loads: the levels of load, the one first that all rounds are measured at; by default the release file's.
    :param rounds: how many rounds; by default the release file's.
    :param first_round: the number of the first one, where another pod has measured before.
    """
    arguments = [
        f"benchmark_{benchmark.generator}.py",
        "--server",
        place.grpc_address,
        "--candidate",
        candidate.name,
        "--candidate-version",
        str(candidate.version),
        *_load_arguments(benchmark.loads if loads is None else loads),
        "--requests",
        str(benchmark.requests),
        "--rounds",
        str(benchmark.rounds if rounds is None else rounds),
        "--first-round",
        str(first_round),
        "--timeout-s",
        str(benchmark.timeout_s),
        "--destination",
        place.destination,
    ]
    if baseline is not None:
        arguments += ["--baseline", baseline.name, "--baseline-version", str(baseline.version)]
    if benchmark.genai is not None:
        return [*arguments, "--http-server", place.http_address, *_text_arguments(benchmark.genai)]
    return [*arguments, "--golden", place.golden_uri, *place.golden.arguments()]


def _load_arguments(loads: Sequence[LoadLevel]) -> list[str]:
    rates = [f"{load.request_rate_rps:g}" for load in loads if load.request_rate_rps is not None]
    if rates:
        return ["--request-rate", *rates]
    return ["--concurrency", *(str(load.concurrency) for load in loads)]


def _text_arguments(genai: TextGeneration) -> list[str]:
    """What genai-perf needs to know about a model that generates text."""
    arguments = [
        "--endpoint-type",
        genai.endpoint_type,
        "--backend",
        genai.backend,
        "--input-tokens-mean",
        str(genai.input_tokens_mean),
        "--input-tokens-stddev",
        str(genai.input_tokens_stddev),
        "--output-tokens-mean",
        str(genai.output_tokens_mean),
        "--output-tokens-stddev",
        str(genai.output_tokens_stddev),
    ]
    if genai.tokenizer is not None:
        arguments += ["--tokenizer", genai.tokenizer]
    if genai.streaming:
        arguments += ["--streaming"]
    return arguments
