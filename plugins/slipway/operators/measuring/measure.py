"""A benchmark outside of a release: one version on staging, held against the release file's limits."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slipway.hooks.triton import TritonHook
from slipway.operators.base import attempt_of
from slipway.operators.revalidation.finding_book import FindingBook
from slipway.operators.revalidation.live_look import LiveLook
from slipway.operators.staging import StagedModel, place_version
from slipway.operators.tuning.base import TuningStep
from slipway.operators.tuning.search import MeasuringStep
from slipway.pods.benchmark_command import MeasuredModel, MeasuringPlace, benchmark_command
from slipway.pods.description import ReleasePod
from slipway.read_model.keeper import keep_current
from slipway.registry.registry import GOLDEN_FILE, ModelRegistry
from slipway.registry.signing import signing_key_of
from slipway.release_context import make_outbox
from slipway.release_run import ReleaseRun
from slipway.tuning.staged import await_ready, unload_models
from slipway_core.bucket_layout import MEMBER_MARK, repository_paths, staged_name, staged_prefixes
from slipway_core.errors import SlipwayError
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.gates.benchmark.verdict import BenchmarkVerdict, judge_benchmark, require_benchmark
from slipway_core.gates.pod_report import RESULT_LIMIT_BYTES, pod_result
from slipway_core.operations.revalidation.findings import Finding, settled_check
from slipway_core.operations.revalidation.report import (
    CheckResult,
    ModelReport,
    could_not_check,
    differs,
    passed,
)
from slipway_core.operations.revalidation.way_back import drift_notice
from slipway_core.reports.benchmark.page import BenchmarkedVersion, render_benchmark_html
from slipway_rules.pod_files import RESULT_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context

    from slipway.pods.execution import PodExecution

_KILLED_LIMIT_S = 20.0


class MeasureVersionOperator(MeasuringStep):
    """Loads the version on staging under a name of its own, measures it in a pod, and holds it to `benchmark.slo`.

    The page and the verdict lie beside the gates' evidence of the version. Where the version is live, a missed limit
    opens the finding `VERSION-benchmark`, a met one closes it, and a measurement that could not be made is never a
    pass: after `revalidation.unchecked_runs` runs it is a finding too. No release is touched, and nothing that is live.
    """

    evidence_file = "benchmark.html"

    def run(self, context: Context) -> str:
        """Measure, write, settle the finding; return the page's address.

        :raises BenchmarkRefusedError: a limit is missed.
        """
        run = self.release_run
        try:
            result = self._measured(context)
        except SlipwayError as error:
            self._settle(context, could_not_check("benchmark", error), "")
            raise
        verdict = judge_benchmark(result, run.spec.benchmark)
        page = self._write(result, verdict)
        self._settle(context, _check_of(verdict), page)
        require_benchmark(verdict, run.model, run.version)
        return page

    def on_kill(self) -> None:
        """Delete the pod and unload the version."""
        try:
            if self._pod is not None:
                self._pod.kill()
        finally:
            try:
                unload_measured(TritonHook(self.triton_conn_id, _KILLED_LIMIT_S), self.release_run)
            except SlipwayError as error:
                self.log.warning("the version is still loaded on staging: %s", error)

    _pod: PodExecution | None = None

    def _measured(self, context: Context) -> BenchmarkResult:
        """Return what a pod measures; the version is loaded for that long."""
        run, store = self.release_run, self.store
        registry = ModelRegistry(store)
        manifest = registry.require(run.model, run.version)
        key = signing_key_of(run.spec)
        if key is not None:
            registry.require_signed(manifest, key)
        limit_s = float(run.spec.serving.load_timeout_s)
        hook = TritonHook(self.triton_conn_id, limit_s)
        unload_measured(hook, run)
        staged = place_version(store, run.spec, manifest, "measured", self.triton_conn_id)
        for name, config in (
            *((one.name, one.config) for one in staged.members),
            (staged.name, staged.config),
        ):
            hook.load(name, config)
            await_ready(hook, name, limit_s)
        return self._pod_result(context, hook, staged)

    def _pod_result(self, context: Context, hook: TritonHook, staged: StagedModel) -> BenchmarkResult:
        run, store = self.release_run, self.store
        prefix = f"{run.evidence_prefix}benchmark/"
        key = f"{prefix}{RESULT_FILE}"
        store.delete(key)
        place = MeasuringPlace(
            grpc_address=hook.grpc_address,
            http_address=hook.http_address,
            golden_uri=run.uri(f"{repository_paths(run.model, run.version).root}{GOLDEN_FILE}"),
            golden=run.spec.golden,
            destination=run.uri(prefix),
        )
        pod = ReleasePod(
            kind="benchmark",
            stage="measure",
            settings=run.spec.benchmark,
            command=lambda: benchmark_command(
                run.spec.benchmark, place, MeasuredModel(staged.name, staged.version)
            ),
            result_key=key,
            attempt=attempt_of(context),
        )
        self._pod = self._execution(pod)
        self._pod.start(context)
        found = store.read_json(key, most_bytes=RESULT_LIMIT_BYTES)
        if found is None:
            raise self._pod.silent_end(store.uri(key))
        result = pod_result(found, store.uri(key))
        if result.get("error") is not None:
            raise SlipwayError.from_dict(result["error"])
        return BenchmarkResult.from_json(result)

    def _write(self, result: BenchmarkResult, verdict: BenchmarkVerdict) -> str:
        """Write the verdict and the page; return the page's address."""
        run = self.release_run
        now = datetime.now(UTC).isoformat(timespec="seconds")
        subject = BenchmarkedVersion(run.model, run.version, run.release_id, now)
        page = render_benchmark_html(subject, run.spec.benchmark, result, verdict).encode()
        key = f"{run.evidence_prefix}{self.evidence_file}"
        self.store.write_json(f"{run.evidence_prefix}benchmark/verdict.json", verdict.to_dict())
        self.store.write(key, page, content_type="text/html; charset=utf-8")
        for comparison in verdict.comparisons:
            self.log.info("%s", comparison.sentence)
        return self.store.uri(key)

    def _settle(self, context: Context, result: CheckResult, page: str) -> None:
        """Open, keep or close the finding, where the version is still the live one; tell people of a new one."""
        run = self.release_run
        live = LiveLook(self.store, run.spec, context, kubernetes_conn_id=self.kubernetes_conn_id).live()
        if live.standing != "checked" or live.version != run.version:
            self.log.info("no finding: version %s is no longer live. %s", run.version, live.why)
            return
        report = ModelReport(
            run=context["run_id"],
            model=run.model,
            at=datetime.now(UTC),
            standing="checked",
            why="",
            service=f"{run.spec.rollout.namespace}/{run.spec.rollout.inference_service}",
            version=run.version,
            checks=(result,),
        )
        unchecked_runs = run.spec.revalidation.unchecked_runs
        findings = FindingBook(self.store, run.model).change(
            lambda known: settled_check(known, report, result, unchecked_runs=unchecked_runs)
        )
        keep_current(self.store.with_answer_limit, run.model)
        self._notify(context, report, findings.values(), page)

    def _notify(self, context: Context, report: ModelReport, findings: Iterable[Finding], page: str) -> None:
        run = self.release_run
        outbox = make_outbox(run.bucket, run.spec, self.aws_conn_id)
        for one in findings:
            if not one.is_open or one.check != "benchmark" or one.opened_run != report.run:
                continue
            self.log.warning("the finding %s of %s is open: %s", one.name, run.model, one.summary)
            outbox.tell(
                drift_notice(
                    one,
                    on_drift="notify",
                    page=page,
                    run=report.run,
                    dag_id=context["dag"].dag_id,
                    at=report.at,
                )
            )


class UnloadMeasuredOperator(TuningStep):
    """Unloads what a benchmark has loaded on staging, and removes its copy. Made to be a teardown."""

    def run(self, context: Context) -> None:
        """Unload and remove."""
        run = self.release_run
        unload_measured(TritonHook(self.triton_conn_id, float(run.spec.serving.load_timeout_s)), run)
        for prefix in staged_prefixes(staged_name(run.model, "measured")):
            for entry in self.store.entries(prefix):
                self.store.delete(entry.key)


def unload_measured(hook: TritonHook, run: ReleaseRun) -> None:
    """Unload the version and, of an ensemble, its members: whatever the server has under the names of a benchmark."""
    name = staged_name(run.model, "measured")
    loaded = sorted({entry.name for entry in hook.index() if entry.name.startswith(f"{name}{MEMBER_MARK}")})
    unload_models(hook, [name, *loaded], hook.timeout_s)


def _check_of(verdict: BenchmarkVerdict) -> CheckResult:
    if verdict.passed:
        return passed("benchmark", "it answers within the limits of `benchmark.slo`")
    missed = [f"{one.figure}: {one.limit}" for one in verdict.comparisons if not one.passed]
    return differs("benchmark", "; ".join(verdict.reasons), missed or verdict.reasons)
