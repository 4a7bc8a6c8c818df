"""Validation: golden requests to the staged candidate, scored, held against expectations, reported."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from include.model_release.answers import ValidationNumbers, require_output
from include.model_release.asking import gathered, is_decoupled, optional_inputs, require_still_optional
from include.model_release.expectations import require_validation, score, validation_report
from include.model_release.golden_set import GoldenSet, golden_from_arrays
from include.model_release.report_html import render_report_html
from include.model_release.signature import require_equal, signature_from_metadata
from slipway.hooks.registry import ModelRegistry
from slipway.hooks.triton import TritonHook
from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.operators.staging import StagedModel, Staging
from slipway.quality import run_expectations
from slipway.ticket import ReleaseTicket

if TYPE_CHECKING:
    from airflow.sdk import Context


class ValidateModelOperator(ReleaseOperator):
    """Asks candidate and stable version for the golden set's answers and holds them against the release file.

    :param staging: the `Staging` as JSON (templated).
    :param triton_conn_id: the staging server.
    """

    template_fields: Sequence[str] = ("staging", *ReleaseOperator.template_fields)

    def __init__(
        self, *, staging: str, triton_conn_id: str = TritonHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.staging = staging
        self.triton_conn_id = triton_conn_id

    def run(self, context: Context) -> None:
        """Signature first, then answers, then the suite; the report is written whatever it says."""
        ticket = self.ticket
        staging = Staging.model_validate(json.loads(self.staging))
        with recorded_stage(self.record, "validate"):
            hook = TritonHook(self.triton_conn_id, ticket.spec.validation.timeout_s)
            self._check_signature(ticket, hook, staging)
            numbers = self._score(ticket, hook, staging)
            report = self._report(ticket, staging, numbers)
            prefix = ticket.evidence_prefix
            self.store.write_json(f"{prefix}validation.json", report)
            page = render_report_html(report).encode()
            self.store.write(f"{prefix}validation.html", page, content_type="text/html; charset=utf-8")
            self.log.info("report: %s", ticket.uri(f"{prefix}validation.html"))
            require_validation(report)

    def _check_signature(self, ticket: ReleaseTicket, hook: TritonHook, staging: Staging) -> None:
        """The server's word on both versions, not the manifests': it is what clients will meet.

        A stable version that is not on the server has its manifest's word, held against the candidate's manifest.
        """
        if ticket.stable is None:
            return
        stable_name = f"version {ticket.stable.version}"
        if staging.baseline is None:
            registry = ModelRegistry(self.store)
            manifest = registry.manifest(ticket.model, ticket.stable.version)
            if manifest is not None:
                candidate = registry.require(ticket.model, ticket.version).signature
                require_equal(manifest.signature, candidate, stable_name=stable_name)
            return
        candidate, stable = (
            signature_from_metadata(hook.metadata(staged.name, staged.version))
            for staged in (staging.candidate, staging.baseline)
        )
        require_equal(stable, candidate, stable_name=stable_name)
        require_still_optional(staging.baseline.config, staging.candidate.config, stable_name=stable_name)

    def _score(self, ticket: ReleaseTicket, hook: TritonHook, staging: Staging) -> ValidationNumbers:
        """Both versions answer the candidate's golden set."""
        registry = ModelRegistry(self.store)
        validation = ticket.spec.validation
        manifest = registry.require(ticket.model, ticket.version)
        require_output(manifest.signature, validation.output)
        with np.load(io.BytesIO(registry.golden_set(manifest)), allow_pickle=False) as arrays:
            golden = golden_from_arrays(
                dict(arrays),
                manifest.signature,
                validation.label,
                kind=validation.kind,
                optional=optional_inputs(staging.candidate.config),
            )
        answers = self._answers(ticket, hook, staging.candidate, golden)
        stable = None if staging.baseline is None else self._answers(ticket, hook, staging.baseline, golden)
        return score(golden, answers, stable, validation)

    def _answers(
        self, ticket: ReleaseTicket, hook: TritonHook, staged: StagedModel, golden: GoldenSet
    ) -> np.ndarray:
        """The answers of one version, a row for each golden row."""
        validation = ticket.spec.validation
        name, version, output = staged.name, staged.version, validation.output
        configs = [staged.config, *(member.config for member in staged.members)]
        if is_decoupled(configs):
            # How the rows of a batch share its responses is each model's own affair.
            requests = [inputs for _, inputs in golden.batches(1)]
            responses = hook.infer_stream(name, version, requests, [output])
            answers = gathered([[one[output] for one in each] for each in responses], validation)
        else:
            # The release file knows the limit only of a model whose configuration it makes.
            limit = int(staged.config.get("max_batch_size", 0)) or validation.batch_size
            batches = golden.batches(min(limit, validation.batch_size))
            answers = np.concatenate(
                [hook.infer(name, version, inputs, [output])[output] for _, inputs in batches]
            )
        self.log.info("%s version %s answered %s golden rows", name, version, golden.rows)
        return answers

    def _report(self, ticket: ReleaseTicket, staging: Staging, numbers: ValidationNumbers) -> dict[str, Any]:
        """Runs the suite over the answers' table."""
        import pandas as pd  # a second, which only the task that validates shall pay

        stable = None if staging.baseline is None else staging.baseline.version
        results = run_expectations(pd.DataFrame(numbers.columns), numbers.suite(), ticket.model)
        return validation_report(
            model=ticket.model,
            version=ticket.version,
            stable_version=stable,
            not_compared=staging.not_compared,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            numbers=numbers,
            results=results,
            signature=ModelRegistry(self.store).require(ticket.model, ticket.version).signature,
        )
