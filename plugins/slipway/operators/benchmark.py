"""Benchmarking: a load generator in a pod measures candidate and stable on staging, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

from include.model_release.bucket_layout import repository_paths
from include.model_release.gates.benchmark import BenchmarkResult, judge_benchmark, require_benchmark
from include.model_release.spec.release_file import TextGeneration
from slipway.extra_links import EVIDENCE_LINKS
from slipway.hooks.triton import TritonHook
from slipway.operators.pod import ReleasePodOperator
from slipway.operators.staging import Staging
from slipway.pods.description import ReleasePod
from slipway.registry.registry import GOLDEN_FILE
from slipway.release_run import ReleaseRun

if TYPE_CHECKING:
    from airflow.sdk import Context


class BenchmarkModelOperator(ReleasePodOperator):
    """Runs perf_analyzer, or genai-perf for a model that generates text, and holds the result to the limits.

    Where it cannot be told, since the stable version misses the limits as well, it is measured again by a pod of its
    own after a pause in the triggerer, as often as ``benchmark.attempts`` says. Then the stage is ``inconclusive``.

    :param staging: the `Staging` as JSON (templated).
    :param triton_conn_id: the staging server; the pod is given its gRPC address.
    """

    template_fields: Sequence[str] = ("staging", *ReleasePodOperator.template_fields)
    evidence_file = "benchmark/verdict.json"
    operator_extra_links = EVIDENCE_LINKS

    def __init__(
        self, *, staging: str, triton_conn_id: str = TritonHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.staging = staging
        self.triton_conn_id = triton_conn_id
        self._attempt = 1

    def execute(self, context: Context, event: Any = None, attempt: int = 1) -> Any:
        """Measures; Airflow comes back here with the number of the ``attempt`` when a pause is over."""
        self._attempt = attempt
        return super().execute(context)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Goes on when the pod has ended."""
        self._attempt = int(event.get("attempt", 1))
        super().trigger_reentry(context, event)

    def describe(self, release_run: ReleaseRun) -> ReleasePod:
        """Return the load generator's pod; a later measurement has one of its own."""
        return ReleasePod(
            kind="benchmark",
            stage="benchmark",
            settings=release_run.spec.benchmark,
            command=lambda: self._command(release_run),
            result_key=f"{self._attempt_prefix(release_run)}result.json",
            manifest_sha256=self._staging.manifest_sha256,
            attempt=self._attempt,
        )

    def _command(self, release_run: ReleaseRun) -> list[str]:
        """Return ``benchmark_GENERATOR.py`` with the server, both versions and the load."""
        benchmark = release_run.spec.benchmark
        candidate, baseline = self._staging.candidate, self._staging.baseline
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
            release_run.uri(self._attempt_prefix(release_run)),
        ]
        if baseline is not None:
            arguments += ["--baseline", baseline.name, "--baseline-version", str(baseline.version)]
        if benchmark.genai is not None:
            server = TritonHook(self.triton_conn_id).http_address
            return [*arguments, "--http-server", server, *_text_arguments(benchmark.genai)]
        return [
            *arguments,
            "--golden",
            release_run.uri(f"{repository_paths(release_run.model, release_run.version).root}{GOLDEN_FILE}"),
            *release_run.spec.golden.arguments(),
        ]

    def judge(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Holds the measurements against the release file's limits, or has them made again."""
        benchmark = release_run.spec.benchmark
        measured = BenchmarkResult.from_json(result)
        verdict = judge_benchmark(measured, benchmark, not_compared=self._staging.not_compared)
        told = {**verdict.to_dict(), "attempt": self._attempt}
        self.store.write_json(f"{self._prefix(release_run)}verdict.json", told)
        if verdict.not_compared:
            self.log.warning("not compared with the stable version: %s", verdict.not_compared)
        for comparison in verdict.comparisons:
            self.log.info("%s", comparison.told)
        if verdict.status == "inconclusive" and self._attempt < benchmark.attempts:
            self.log.warning(
                "measured again in %s s: %s", benchmark.attempt_pause_s, "; ".join(verdict.reasons)
            )
            pause = TimeDeltaTrigger(timedelta(seconds=benchmark.attempt_pause_s))
            self.defer(trigger=pause, method_name="execute", kwargs={"attempt": self._attempt + 1})
        require_benchmark(verdict, release_run.model, release_run.version, measured=self._attempt)

    @cached_property
    def _staging(self) -> Staging:
        return Staging.parse(self.staging)

    @staticmethod
    def _prefix(release_run: ReleaseRun) -> str:
        return f"{release_run.evidence_prefix}benchmark/"

    def _attempt_prefix(self, release_run: ReleaseRun) -> str:
        """Where one measurement lies; the first one beside the verdict."""
        again = f"attempt-{self._attempt}/" if self._attempt > 1 else ""
        return f"{self._prefix(release_run)}{again}"


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
