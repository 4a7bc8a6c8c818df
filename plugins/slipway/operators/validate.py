"""Validation: golden requests to the staged candidate, scored, held against expectations, reported."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from include.model_release.errors import SignatureRefusedError, VersionConflictError
from include.model_release.gates.validation.answers import ANSWERS_FILE, pack_answers
from include.model_release.gates.validation.asking import answer_of, joined
from include.model_release.gates.validation.gate import require_validation, score, validation_report
from include.model_release.gates.validation.golden_set import GoldenSet
from include.model_release.gates.validation.health import HealthCheck, Probe, health_of, probe_of
from include.model_release.gates.validation.request_options import (
    gather_responses,
    inputs_taken,
    is_decoupled,
    optional_inputs,
)
from include.model_release.gates.validation.scores import ValidationScores, require_output
from include.model_release.gates.validation.signature import (
    ServedTensors,
    SignatureChange,
    require_compatible,
)
from include.model_release.publishing.manifest import Manifest
from include.model_release.reports.signature_report import signature_report
from include.model_release.reports.validation.page import render_report_html
from include.model_release.spec.revalidation import GOLDEN_ROWS_LIMIT
from include.model_release.spec.validation import TextValidation
from slipway.extra_links import EVIDENCE_LINKS
from slipway.hooks.triton import TritonHook
from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.operators.staging import StagedModel, Staging
from slipway.quality import run_expectations
from slipway.registry.golden import load_golden_set
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun

if TYPE_CHECKING:
    from airflow.sdk import Context


class ValidateModelOperator(ReleaseOperator):
    """Asks candidate and stable version for the golden set's answers and holds them against the release file.

    :param staging: the `Staging` as JSON (templated).
    :param triton_conn_id: the staging server.
    """

    template_fields: Sequence[str] = ("staging", *ReleaseOperator.template_fields)
    evidence_file = "validation.html"
    operator_extra_links = EVIDENCE_LINKS

    def __init__(
        self, *, staging: str, triton_conn_id: str = TritonHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.staging = staging
        self.triton_conn_id = triton_conn_id

    def run(self, context: Context) -> None:
        """Signature first, then answers, then the suite; the report is written whatever it says."""
        release_run = self.release_run
        staging = Staging.parse(self.staging)
        with recorded_stage(self.record, "validate", manifest_sha256=staging.manifest_sha256):
            hook = TritonHook(self.triton_conn_id, release_run.spec.validation.timeout_s)
            changes = self._check_signature(release_run, hook, staging)
            manifest = self._manifest(release_run, staging)
            golden = self._golden(release_run, staging, manifest)
            numbers, health = self._score(release_run, hook, staging, golden)
            report = self._report(release_run, staging, numbers, health, manifest, golden)
            report["signature_changes"] = [change.told for change in changes]
            report["breaking"] = release_run.spec.breaking
            self._keep(release_run, report)
            require_validation(report)

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
        sides = self._sides(release_run, hook, staging)
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
            self.log.info("clients of %s can go on: %s", name, change.told)
        return changes

    def _sides(
        self, release_run: ReleaseRun, hook: TritonHook, staging: Staging
    ) -> tuple[ServedTensors, ServedTensors] | None:
        """The tensors of the stable version and of the candidate; None where there is nothing to compare with.

        The server's word on both, not the manifests': it is what clients will meet. A stable version that is not on the
        server has its manifest's word, held against the candidate's manifest.
        """
        if release_run.stable is None:
            return None
        if staging.baseline is None:
            published = ModelRegistry(self.store).manifest(release_run.model, release_run.stable.version)
            if published is None:
                return None
            candidate_signature = self._manifest(release_run, staging).signature
            return ServedTensors(published.signature), ServedTensors(candidate_signature)
        stable, candidate = (
            ServedTensors(
                hook.metadata(staged.name, staged.version).signature,
                optional_inputs(staged.config),
                int(staged.config.get("max_batch_size", 0)),
            )
            for staged in (staging.baseline, staging.candidate)
        )
        return stable, candidate

    def _keep(self, release_run: ReleaseRun, report: dict[str, Any]) -> None:
        """Writes the report, for programs and for people."""
        prefix = release_run.evidence_prefix
        self.store.write_json(f"{prefix}validation.json", report)
        page = render_report_html(report).encode()
        self.store.write(f"{prefix}validation.html", page, content_type="text/html; charset=utf-8")
        self.log.info("report: %s", self.page())

    def _keep_answers(self, release_run: ReleaseRun, answers: np.ndarray) -> None:
        """Keeps what `model_revalidation` holds the live version's answers against, for as long as it is live."""
        content = pack_answers(answers, GOLDEN_ROWS_LIMIT)
        if content is None:
            self.log.warning("the answers are too large to be kept: there will be no reference for them")
            return
        self.store.write(f"{release_run.evidence_prefix}{ANSWERS_FILE}", content)

    def _golden(self, release_run: ReleaseRun, staging: Staging, manifest: Manifest) -> GoldenSet:
        """The candidate's golden set, once the outputs are known to be there that are asked for."""
        for output in release_run.spec.validation.outputs:
            require_output(manifest.signature, output)
        registry = ModelRegistry(self.store)
        return load_golden_set(registry, manifest, release_run.spec, staging.candidate.config)

    def _score(
        self, release_run: ReleaseRun, hook: TritonHook, staging: Staging, golden: GoldenSet
    ) -> tuple[ValidationScores, tuple[HealthCheck, ...]]:
        """Both versions answer the candidate's golden set; the candidate some rows of it again."""
        validation = release_run.spec.validation
        answers = self._answers(release_run, hook, staging.candidate, golden)
        self._keep_answers(release_run, answers)
        stable = (
            None if staging.baseline is None else self._answers(release_run, hook, staging.baseline, golden)
        )
        probe = self._probe(release_run, hook, staging.candidate, golden)
        health = health_of(golden, answers, stable, validation, probe)
        for one in health:
            self.log.info("output health, %s: %s (%s)", one.name, one.told, one.status)
        return score(golden, answers, stable, validation), health

    def _probe(
        self, release_run: ReleaseRun, hook: TritonHook, staged: StagedModel, golden: GoldenSet
    ) -> Probe | None:
        """Some golden rows asked again, alone and together; None where answers are texts or come in streams."""
        validation, batch = release_run.spec.validation, self._batch_rows(release_run, staged)
        configs = [staged.config, *(member.config for member in staged.members)]
        if is_decoupled(configs) or isinstance(validation, TextValidation):
            return None
        rows = range(min(validation.health.probe_rows, golden.rows))

        def ask(chosen: Sequence[int]) -> dict[str, np.ndarray]:
            found = hook.infer(staged.name, staged.version, golden.take(chosen), validation.outputs)
            return {name: golden.rows_first(name, one, len(chosen)) for name, one in found.items()}

        return probe_of(ask, rows, golden.request_rows, batch)

    @staticmethod
    def _batch_rows(release_run: ReleaseRun, staged: StagedModel) -> int:
        """How many golden rows a request has: the release file knows the limit only of a model whose configuration it
        makes.
        """
        batch_size = release_run.spec.validation.batch_size
        return min(int(staged.config.get("max_batch_size", 0)) or batch_size, batch_size)

    def _answers(
        self, release_run: ReleaseRun, hook: TritonHook, staged: StagedModel, golden: GoldenSet
    ) -> np.ndarray:
        """The answers of one version, a row for each golden row."""
        validation = release_run.spec.validation
        name, version, outputs = staged.name, staged.version, validation.outputs
        configs = [staged.config, *(member.config for member in staged.members)]
        if is_decoupled(configs):
            # How the rows of a batch share its responses is each model's own affair.
            requests = [inputs_taken(staged.config, inputs) for _, inputs in golden.batches(1)]
            output = validation.output
            responses = hook.infer_stream(name, version, requests, [output])
            answers = gather_responses([[one[output] for one in each] for each in responses], validation)
        else:
            batches = golden.batches(self._batch_rows(release_run, staged))
            answers = joined(
                [
                    answer_of(
                        golden,
                        validation,
                        hook.infer(name, version, inputs_taken(staged.config, inputs), outputs),
                        rows.stop - rows.start,
                    )
                    for rows, inputs in batches
                ]
            )
        self.log.info("%s version %s answered %s golden rows", name, version, golden.rows)
        return answers

    def _report(
        self,
        release_run: ReleaseRun,
        staging: Staging,
        numbers: ValidationScores,
        health: Sequence[HealthCheck],
        manifest: Manifest,
        golden: GoldenSet,
    ) -> dict[str, Any]:
        """Runs the suite over the answers' table."""
        import pandas as pd  # a second, which only the task that validates shall pay

        stable = None if staging.baseline is None else staging.baseline.version
        results = run_expectations(pd.DataFrame(numbers.columns), numbers.suite(), release_run.model)
        return validation_report(
            model=release_run.model,
            version=release_run.version,
            stable_version=stable,
            not_compared=staging.not_compared,
            created_at=_now(),
            numbers=numbers,
            results=results,
            signature=manifest.signature,
            health=health,
            rows_taken=golden.axes.told(),
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
