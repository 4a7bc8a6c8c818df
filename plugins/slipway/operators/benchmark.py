"""Benchmarking: a load generator in a pod measures candidate and stable on staging, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

from slipway.extra_links import EVIDENCE_LINKS
from slipway.hooks.triton import TritonHook
from slipway.operators.pod import ReleasePodOperator
from slipway.operators.staging import Staging
from slipway.pods.benchmark_command import MeasuredModel, MeasuringPlace, benchmark_command
from slipway.pods.description import ReleasePod
from slipway.registry.registry import GOLDEN_FILE
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import repository_paths
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.gates.benchmark.verdict import BenchmarkVerdict, judge_benchmark, require_benchmark
from slipway_core.reports.benchmark.page import BenchmarkedVersion, render_benchmark_html
from slipway_core.spec.release_file import Benchmark
from slipway_rules.pod_files import RESULT_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context

# No trigger may fire before Airflow has noticed the end of the task that deferred to it.
_PART_PAUSE_S = 5


class BenchmarkModelOperator(ReleasePodOperator):
    """Runs perf_analyzer, or genai-perf for a model that generates text, and holds the result to the limits.

    Where the rounds do not decide, another pod measures as many again, up to ``benchmark.max_rounds``. Where it cannot
    be decided then, or since the stable version misses the limits as well, it is measured anew after a pause in the
    triggerer, as often as ``benchmark.attempts`` says. Then the stage is ``inconclusive``.

    :param staging: the `Staging` as JSON (templated).
    :param triton_conn_id: the staging server; the pod is given its gRPC address.
    """

    template_fields: Sequence[str] = ("staging", *ReleasePodOperator.template_fields)
    evidence_file = "benchmark.html"
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
            result_key=self._result_key(release_run, self._part(release_run.spec.benchmark)),
            manifest_sha256=self._staging.manifest_sha256,
            attempt=self._attempt,
        )

    def _command(self, release_run: ReleaseRun) -> list[str]:
        """Return the load generator's command with the server, both versions and the rounds of this part."""
        benchmark = release_run.spec.benchmark
        candidate, baseline = self._staging.candidate, self._staging.baseline
        triton = TritonHook(self.triton_conn_id)
        root = repository_paths(release_run.model, release_run.version).root
        part = self._part(benchmark)
        return benchmark_command(
            benchmark,
            MeasuringPlace(
                grpc_address=triton.grpc_address,
                http_address=triton.http_address,
                golden_uri=release_run.uri(f"{root}{GOLDEN_FILE}"),
                golden=release_run.spec.golden,
                destination=release_run.uri(self._part_prefix(release_run, part)),
            ),
            MeasuredModel(candidate.name, candidate.version),
            None if baseline is None else MeasuredModel(baseline.name, baseline.version),
            rounds=part.rounds,
            first_round=part.first_round,
        )

    def judge(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Hold the measurements against the release file's limits, or have more of them made."""
        benchmark = release_run.spec.benchmark
        part = self._part(benchmark)
        measured = BenchmarkResult.together(
            [*self._before(release_run, part), BenchmarkResult.from_json(result)]
        )
        staging = self._staging
        verdict = judge_benchmark(
            measured,
            benchmark,
            not_compared=staging.not_compared,
            with_stable=staging.baseline is not None,
        )
        document = {**verdict.to_dict(), "attempt": part.attempt}
        self.store.write_json(f"{self._prefix(release_run)}verdict.json", document)
        self._write_page(release_run, measured, verdict)
        if verdict.not_compared:
            self.log.warning("not compared with the stable version: %s", verdict.not_compared)
        for comparison in verdict.comparisons:
            self.log.info("%s", comparison.sentence)
        reasons = "; ".join(verdict.reasons)
        if verdict.more_rounds:
            self.log.warning("measuring %s more rounds: %s", verdict.more_rounds, reasons)
            self._measure_again(self._attempt + 1, _PART_PAUSE_S)
        if verdict.status == "inconclusive" and part.attempt < benchmark.attempts:
            self.log.warning("measuring again in %s s: %s", benchmark.attempt_pause_s, reasons)
            self._measure_again(part.attempt * len(benchmark.looks) + 1, benchmark.attempt_pause_s)
        for warning in verdict.warnings:
            self.log.warning("%s", warning)
        require_benchmark(verdict, release_run.model, release_run.version, measured=part.attempt)

    def _write_page(
        self, release_run: ReleaseRun, measured: BenchmarkResult, verdict: BenchmarkVerdict
    ) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        subject = BenchmarkedVersion(release_run.model, release_run.version, release_run.release_id, now)
        page = render_benchmark_html(subject, release_run.spec.benchmark, measured, verdict).encode()
        key = f"{release_run.evidence_prefix}{self.evidence_file}"
        self.store.write(key, page, content_type="text/html; charset=utf-8")

    def _measure_again(self, pod: int, pause_s: int) -> NoReturn:
        """Come back with the pod of this number when a pause in the triggerer is over."""
        pause = TimeDeltaTrigger(timedelta(seconds=pause_s))
        self.defer(trigger=pause, method_name="execute", kwargs={"attempt": pod})
        raise AssertionError("deferring raises")

    def _before(self, release_run: ReleaseRun, part: _Part) -> list[BenchmarkResult]:
        """Return what earlier pods of the same attempt have measured."""
        looks = release_run.spec.benchmark.looks
        keys = [
            self._result_key(release_run, _Part.of(looks, part.attempt, look)) for look in range(part.look)
        ]
        return [BenchmarkResult.from_json(found) for key in keys if (found := self.store.read_json(key))]

    def _part(self, benchmark: Benchmark) -> _Part:
        attempt, look = divmod(self._attempt - 1, len(benchmark.looks))
        return _Part.of(benchmark.looks, attempt + 1, look)

    @cached_property
    def _staging(self) -> Staging:
        return Staging.parse(self.staging).of(self.release_run)

    @staticmethod
    def _prefix(release_run: ReleaseRun) -> str:
        return f"{release_run.evidence_prefix}benchmark/"

    def _part_prefix(self, release_run: ReleaseRun, part: _Part) -> str:
        """Where one pod's measurements lie; those of the first one beside the verdict."""
        again = f"attempt-{part.attempt}/" if part.attempt > 1 else ""
        more = f"rounds-from-{part.first_round}/" if part.look else ""
        return f"{self._prefix(release_run)}{again}{more}"

    def _result_key(self, release_run: ReleaseRun, part: _Part) -> str:
        return f"{self._part_prefix(release_run, part)}{RESULT_FILE}"


@dataclass(frozen=True)
class _Part:
    """What one pod measures: some rounds of one attempt. `look` counts the pods of the attempt, from 0."""

    attempt: int
    look: int
    first_round: int
    rounds: int

    @classmethod
    def of(cls, looks: Sequence[int], attempt: int, look: int) -> _Part:
        before = looks[look - 1] if look else 0
        return cls(attempt, look, before + 1, looks[look] - before)
