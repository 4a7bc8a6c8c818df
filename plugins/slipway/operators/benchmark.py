"""Benchmarking: a load generator in a pod measures candidate and stable on staging, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from include.model_release.benchmark import BenchmarkResult, judge_benchmark, require_benchmark
from include.model_release.repository import repository_paths
from include.model_release.spec import Benchmark, TextGeneration
from slipway.hooks.registry import GOLDEN_FILE
from slipway.hooks.triton import TritonHook
from slipway.operators.pod import ReleasePodOperator
from slipway.operators.staging import Staging
from slipway.ticket import ReleaseTicket


class BenchmarkModelOperator(ReleasePodOperator):
    """Runs perf_analyzer, or genai-perf for a model that generates text, and holds the result to the limits.

    :param staging: the `Staging` as JSON (templated).
    :param triton_conn_id: the staging server; the pod is given its gRPC address.
    """

    stage = "benchmark"

    template_fields: Sequence[str] = ("staging", *ReleasePodOperator.template_fields)

    def __init__(
        self, *, staging: str, triton_conn_id: str = TritonHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.staging = staging
        self.triton_conn_id = triton_conn_id

    def pod_spec(self, ticket: ReleaseTicket) -> Benchmark:
        """The release file's ``benchmark``."""
        return ticket.spec.benchmark

    def arguments_for(self, ticket: ReleaseTicket) -> list[str]:
        """``benchmark_GENERATOR.py`` with the server, both versions and the load."""
        benchmark = ticket.spec.benchmark
        staging = Staging.model_validate(json.loads(self.staging))
        candidate, baseline = staging.candidate, staging.baseline
        arguments = [
            f"benchmark_{benchmark.generator}.py",
            "--server",
            TritonHook(self.triton_conn_id).grpc_address,
            "--candidate",
            candidate.name,
            "--candidate-version",
            str(candidate.version),
            "--concurrency",
            str(benchmark.concurrency),
            "--requests",
            str(benchmark.requests),
            "--rounds",
            str(benchmark.rounds),
            "--timeout-s",
            str(benchmark.timeout_s),
            "--destination",
            ticket.uri(self._prefix(ticket)),
        ]
        if baseline is not None:
            arguments += ["--baseline", baseline.name, "--baseline-version", str(baseline.version)]
        if benchmark.genai is not None:
            server = TritonHook(self.triton_conn_id).http_address
            return [*arguments, "--http-server", server, *_text_arguments(benchmark.genai)]
        return [
            *arguments,
            "--golden",
            ticket.uri(f"{repository_paths(ticket.model, ticket.version).root}{GOLDEN_FILE}"),
        ]

    def result_key(self, ticket: ReleaseTicket) -> str:
        """The pod's result, beside the generator's own exports."""
        return f"{self._prefix(ticket)}result.json"

    def judge(self, ticket: ReleaseTicket, result: Mapping[str, Any]) -> None:
        """Holds the measurements against the release file's limits."""
        not_compared = Staging.model_validate_json(self.staging).not_compared
        measured = BenchmarkResult.from_json(result)
        verdict = judge_benchmark(measured, ticket.spec.benchmark, not_compared=not_compared)
        self.store.write_json(f"{self._prefix(ticket)}verdict.json", verdict.to_dict())
        if verdict.not_compared:
            self.log.warning("not compared with the stable version: %s", verdict.not_compared)
        for comparison in verdict.comparisons:
            self.log.info("%s", comparison)
        require_benchmark(verdict, ticket.model, ticket.version)

    @staticmethod
    def _prefix(ticket: ReleaseTicket) -> str:
        return f"{ticket.evidence_prefix}benchmark/"


def _text_arguments(genai: TextGeneration) -> list[str]:
    """What genai-perf needs to know about a model that generates text."""
    arguments = [
        "--endpoint-type",
        genai.endpoint_type,
        "--backend",
        genai.backend,
        "--input-tokens-mean",
        str(genai.input_tokens_mean),
        "--output-tokens-mean",
        str(genai.output_tokens_mean),
    ]
    if genai.tokenizer is not None:
        arguments += ["--tokenizer", genai.tokenizer]
    if genai.streaming:
        arguments += ["--streaming"]
    return arguments
