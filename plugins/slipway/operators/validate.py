"""Validation: golden requests to the staged candidate, scored, held against expectations, reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from slipway.extra_links import EVIDENCE_LINKS
from slipway.failures import airflow_failures
from slipway.hooks.triton import TritonHook
from slipway.operators.base import recorded_stage
from slipway.operators.pod import ReleasePodOperator
from slipway.operators.staging import Staging
from slipway.operators.validation.asking import Answered, GoldenQuestions
from slipway.operators.validation.scoring import (
    keep_for_scorer,
    read_gathered,
    scored,
    scorer_command,
    scoring_prefix,
)
from slipway.operators.validation.signatures import sides_of
from slipway.operators.validation.suites import run_suites
from slipway.pods.description import ReleasePod
from slipway.registry.golden import load_golden_set
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway_core.errors import SignatureRefusedError, VersionConflictError
from slipway_core.gates.validation.answers import ANSWERS_FILE, pack_answers
from slipway_core.gates.validation.gate import require_validation, score, validation_report
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.health import HealthCheck, health_of
from slipway_core.gates.validation.kinds.custom import CustomValidation
from slipway_core.gates.validation.other_outputs.compare import compare_outputs
from slipway_core.gates.validation.other_outputs.result import OutputResult
from slipway_core.gates.validation.quality.slices import slice_figures, slices_not_compared
from slipway_core.gates.validation.scores import ValidationScores, require_output
from slipway_core.gates.validation.signature import SignatureChange, require_compatible
from slipway_core.publishing.manifest import Manifest
from slipway_core.reports.signature_report import signature_report
from slipway_core.reports.validation.page import render_report_html
from slipway_core.spec.revalidation import GOLDEN_ROWS_LIMIT
from slipway_core.spec.validation import Validation
from slipway_rules.pod_files import RESULT_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class _Looked:
    """What was seen of the answers besides their scores."""

    health: Sequence[HealthCheck]
    outputs: Sequence[OutputResult]


class ValidateModelOperator(ReleasePodOperator):
    """Asks candidate and stable version for the golden set's answers and holds them against the release file.

    Where `validation.kind` is `custom` the answers are scored in a pod, by the scorer that lay beside the release file.

    :param staging: the `Staging` as JSON (templated).
    :param triton_conn_id: the staging server.
    """

    template_fields: Sequence[str] = ("staging", *ReleasePodOperator.template_fields)
    evidence_file = "validation.html"
    operator_extra_links = EVIDENCE_LINKS

    def __init__(
        self, *, staging: str, triton_conn_id: str = TritonHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.staging = staging
        self.triton_conn_id = triton_conn_id

    def execute(self, context: Context) -> Any:
        """Validate; of `kind: custom` a pod is started and waited for, of all others the work is done here."""
        with airflow_failures(self.page):
            if not isinstance(self.release_run.spec.validation, CustomValidation):
                self.require_admitted()
                return self.run(context)
        return super().execute(context)

    def run(self, context: Context) -> None:
        """Signature first, then answers, then the suite; the report is written whatever it says."""
        release_run = self.release_run
        digest = self._staging.manifest_sha256
        with recorded_stage(self.record, "validate", manifest_sha256=digest, notes=self.notes):
            hook = TritonHook(self.triton_conn_id, release_run.spec.validation.timeout_s)
            changes = self._check_signature(release_run, hook, self._staging)
            manifest = self._manifest(release_run, self._staging)
            golden = self._golden(release_run, self._staging, manifest)
            found, stable, looked = self._ask(release_run, hook, golden, manifest)
            numbers = score(
                golden,
                found.answers,
                None if stable is None else stable.answers,
                release_run.spec.validation,
            )
            latencies = (found.latency_ms, () if stable is None else stable.latency_ms)
            self._conclude(release_run, numbers, looked, latencies, manifest, golden, changes)

    def describe(self, release_run: ReleaseRun) -> ReleasePod:
        """Return the scorer's pod."""
        validation = release_run.spec.validation
        assert isinstance(validation, CustomValidation)  # noqa: S101  execute has looked
        return ReleasePod(
            kind="score",
            stage="validate",
            settings=validation.scoring,
            command=lambda: scorer_command(release_run, read_gathered(self.store, release_run)),
            result_key=f"{scoring_prefix(release_run)}{RESULT_FILE}",
            manifest_sha256=self._staging.manifest_sha256,
        )

    def prepare(self, release_run: ReleaseRun) -> None:
        """Ask both versions, and write what the scorer's pod is given."""
        hook = TritonHook(self.triton_conn_id, release_run.spec.validation.timeout_s)
        self._check_signature(release_run, hook, self._staging)
        manifest = self._manifest(release_run, self._staging)
        golden = self._golden(release_run, self._staging, manifest)
        found, stable, looked = self._ask(release_run, hook, golden, manifest)
        keep_for_scorer(self.store, release_run, golden, found, stable, looked.health, looked.outputs)

    def judge(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Hold what the scorer returned against the release file's limits."""
        hook = TritonHook(self.triton_conn_id, release_run.spec.validation.timeout_s)
        changes = self._check_signature(release_run, hook, self._staging)
        manifest = self._manifest(release_run, self._staging)
        golden = self._golden(release_run, self._staging, manifest)
        gathered = read_gathered(self.store, release_run)
        numbers = scored(self.store, release_run, golden, gathered, result)
        latencies = (gathered.latency_ms, gathered.stable_latency_ms)
        looked = _Looked(gathered.checks(), gathered.outputs())
        self._conclude(release_run, numbers, looked, latencies, manifest, golden, changes)

    @cached_property
    def _staging(self) -> Staging:
        return Staging.parse(self.staging).of(self.release_run)

    def _manifest(self, release_run: ReleaseRun, staging: Staging) -> Manifest:
        """The candidate's manifest, which names the golden set.

        :raises VersionConflictError: it is not the one that was staged.
        """
        manifest, found = ModelRegistry(self.store).require_with_digest(
            release_run.model, release_run.version
        )
        if found != staging.manifest_sha256:
            raise VersionConflictError(
                f"the manifest of {release_run.model} version {release_run.version} has changed since it was staged",
                expected=f"SHA-256 {staging.manifest_sha256}",
                found=f"SHA-256 {found}",
                remedy="find out who wrote to this prefix; release the model under a new version",
            )
        return manifest

    def _check_signature(
        self, release_run: ReleaseRun, hook: TritonHook, staging: Staging
    ) -> tuple[SignatureChange, ...]:
        """Holds inputs and outputs against the stable version's; a refusal leaves its page, with both side by side.

        Returns the differences with which clients can go on.
        """
        sides = sides_of(
            self.store, release_run, hook, staging, partial(self._manifest, release_run, staging)
        )
        if sides is None or release_run.stable is None:
            return ()
        stable, candidate = sides
        name = f"version {release_run.stable.version}"
        try:
            changes = require_compatible(
                stable, candidate, stable_name=name, breaking=release_run.spec.breaking
            )
        except SignatureRefusedError as error:
            report = signature_report(
                error,
                model=release_run.model,
                version=release_run.version,
                stable_version=release_run.stable.version,
                not_compared=staging.not_compared,
                created_at=_now(),
                stable=stable,
                candidate=candidate,
            )
            self._keep(release_run, report)
            raise
        for change in changes:
            self.log.info("clients of %s can continue: %s", name, change.summary)
        return changes

    def _keep(self, release_run: ReleaseRun, report: dict[str, Any]) -> None:
        """Writes the report, for programs and for people."""
        prefix = release_run.evidence_prefix
        self.store.write_json(f"{prefix}validation.json", report)
        page = render_report_html(report).encode()
        self.store.write(f"{prefix}validation.html", page, content_type="text/html; charset=utf-8")
        self.log.info("report: %s", self.page())

    def _keep_answers(self, release_run: ReleaseRun, found: Answered) -> None:
        """Keeps what `model_revalidation` holds the live version's answers against, for as long as it is live."""
        content = pack_answers(found.answers, GOLDEN_ROWS_LIMIT, found.whole.others)
        if content is None:
            self.log.warning("the answers are too large to keep: later checks have no reference for them")
            return
        self.store.write(f"{release_run.evidence_prefix}{ANSWERS_FILE}", content)

    def _golden(self, release_run: ReleaseRun, staging: Staging, manifest: Manifest) -> GoldenSet:
        """The candidate's golden set, once the outputs are known to be there that are asked for."""
        for output in release_run.spec.validation.outputs:
            require_output(manifest.signature, output)
        registry = ModelRegistry(self.store)
        return load_golden_set(registry, manifest, release_run.spec, staging.candidate.config)

    def _ask(
        self, release_run: ReleaseRun, hook: TritonHook, golden: GoldenSet, manifest: Manifest
    ) -> tuple[Answered, Answered | None, _Looked]:
        """Both versions answer the candidate's golden set; the candidate some rows of it again."""
        staging, validation = self._staging, release_run.spec.validation
        questions = GoldenQuestions(hook, validation, golden, _not_scored(manifest, validation))
        found = questions.ask(staging.candidate)
        self._keep_answers(release_run, found)
        stable = None if staging.baseline is None else questions.ask(staging.baseline)
        health = health_of(
            golden,
            found.answers,
            None if stable is None else stable.answers,
            validation,
            questions.probe(staging.candidate),
        )
        for one in health:
            self.log.info("output health, %s: %s (%s)", one.name, one.summary, one.status)
        outputs = compare_outputs(
            golden, found.whole, None if stable is None else stable.whole, validation, staging.not_compared
        )
        for output in outputs:
            self.log.info(
                "output %s, %s: %s (%s)", output.name, output.measure, output.summary, output.status
            )
        return found, stable, _Looked(health, outputs)

    def _conclude(
        self,
        release_run: ReleaseRun,
        numbers: ValidationScores,
        looked: _Looked,
        latencies: tuple[Sequence[float], Sequence[float]],
        manifest: Manifest,
        golden: GoldenSet,
        changes: Sequence[SignatureChange],
    ) -> None:
        """Write the report, and end the stage as it says.

        :param latencies: by golden row how long each version's request took, the candidate's first.
        :param changes: of the signature, with which clients can go on.
        """
        report = self._report(release_run, numbers, looked, latencies, manifest, golden)
        report["signature_changes"] = [change.summary for change in changes]
        report["breaking"] = release_run.spec.breaking
        self._keep(release_run, report)
        if report["not_looked_at"]:
            self.notes[:] = [f"outputs that were not checked: {', '.join(report['not_looked_at'])}"]
        require_validation(report)

    def _report(
        self,
        release_run: ReleaseRun,
        numbers: ValidationScores,
        looked: _Looked,
        latencies: tuple[Sequence[float], Sequence[float]],
        manifest: Manifest,
        golden: GoldenSet,
    ) -> dict[str, Any]:
        """Runs the suites: over the golden set, over the answers' table, and what the release file adds."""
        staging, spec = self._staging, release_run.spec
        stable = None if staging.baseline is None else staging.baseline.version
        ran = run_suites(
            golden,
            numbers,
            spec,
            latencies,
            (release_run.version, release_run.release_id),
            partial(self._keep_document, release_run),
        )
        slices = slice_figures(golden.slices, numbers)
        return validation_report(
            model=release_run.model,
            version=release_run.version,
            stable_version=stable,
            not_compared=staging.not_compared,
            created_at=_now(),
            numbers=numbers,
            results=ran.expectations,
            signature=manifest.signature,
            health=looked.health,
            other_outputs=looked.outputs,
            rows_taken=golden.axes.describe(),
            suites=ran.suites,
            data_docs=ran.data_docs,
            slices=slices,
            slices_left_out=slices_not_compared(golden.slices, numbers, slices),
        )

    def _keep_document(self, release_run: ReleaseRun, place: str, document: Mapping[str, Any] | str) -> None:
        key = f"{release_run.evidence_prefix}{place}"
        if isinstance(document, str):
            self.store.write(key, document.encode(), content_type="text/html; charset=utf-8")
        else:
            self.store.write_json(key, document)


def _not_scored(manifest: Manifest, validation: Validation) -> tuple[str, ...]:
    return tuple(one.name for one in manifest.signature.outputs if one.name not in validation.outputs)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
