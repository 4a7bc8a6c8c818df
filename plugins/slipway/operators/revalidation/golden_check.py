"""Does the live version still answer as when it was released: the same tensors, right answers, as fast as then?"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.golden_asking import GoldenAnswer, LiveServer, ask_each
from slipway.quality.checkpoints import object_name, run_expectations
from slipway.registry.golden import load_golden_set
from slipway.registry.registry import ModelRegistry
from slipway_core.bucket_layout import evidence_prefix, repository_paths
from slipway_core.errors import (
    GoldenSetError,
    ModelInvalidError,
    SpecError,
    UserError,
    ValidationRefusedError,
)
from slipway_core.gates.validation.answers import (
    ANSWERS_FILE,
    ANSWERS_LIMIT_BYTES,
    KeptAnswers,
    unpack_answers,
)
from slipway_core.gates.validation.asking import answer_of, joined
from slipway_core.gates.validation.gate import score
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.custom import CustomValidation
from slipway_core.gates.validation.other_outputs.alike import rows_alike
from slipway_core.gates.validation.request_options import is_decoupled
from slipway_core.gates.validation.scores import MEAN
from slipway_core.operations.documents import OperationsDocument
from slipway_core.operations.layout import latency_reference_key
from slipway_core.operations.revalidation.report import (
    CheckResult,
    differs,
    left_out,
    no_reference,
    passed,
)
from slipway_core.publishing.manifest import Manifest
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.tensors import differences, signature_from_metadata
from slipway_core.value_types import UtcTime

# The first requests open connections and fill caches; they are not measured.
_WARM_UP = 3
_MEASURED = 60
_SEVERAL = 2
# A request may take this share of its limit by what a single row takes: the server has users' requests as well.
_SHARE_OF_LIMIT = 0.25


class LatencyReference(OperationsDocument):
    """How fast a version answered when it was looked at for the first time, one golden row a request."""

    called: ClassVar[str] = "reference of latencies"
    limit_bytes: ClassVar[int] = 16 << 10

    at: UtcTime
    run: str
    p50_ms: float
    p95_ms: float
    requests: int


@dataclass(frozen=True)
class GoldenParts:
    """What the golden checks of one live version need."""

    store: ModelStoreHook
    spec: ReleaseSpec
    manifest: Manifest
    server: LiveServer

    def golden(self) -> tuple[GoldenSet, Mapping[str, Any]]:
        """Return the first rows of the version's golden set, and the model's own configuration.

        :raises UserError: the version has none, or it does not fit.
        :raises TransientError: it could not be read.
        """
        config = ModelRegistry(self.store).configs(self.manifest)[self.spec.model]
        return self.golden_set().first(self.spec.revalidation.golden_rows), config

    def golden_set(self) -> GoldenSet:
        """Return the version's whole golden set.

        :raises UserError: the version has none, or it does not fit.
        :raises TransientError: it could not be read.
        """
        registry = ModelRegistry(self.store)
        config = registry.configs(self.manifest)[self.spec.model]
        return load_golden_set(registry, self.manifest, self.spec, config)

    def ask_each(self, rows: Sequence[Mapping[str, np.ndarray]]) -> list[GoldenAnswer]:
        """Ask the live servers by the protocol of their users, one request after the other."""
        return ask_each(self.server, self.spec.model, self.manifest.signature, rows)

    def is_decoupled(self) -> bool:
        """Whether a request may have several responses, which single calls do not give."""
        return is_decoupled(ModelRegistry(self.store).configs(self.manifest).values())

    def reference(self, promoted_by: str | None) -> KeptAnswers | None:
        """Return the answers that were kept when the version was released; None where none were.

        :param promoted_by: the run that promoted it, whose evidence has them; None: no record names it.
        :raises UserError: they cannot be read.
        :raises TransientError: the store is away.
        """
        if promoted_by is None:
            return None
        paths = repository_paths(self.spec.model, self.manifest.version)
        key = f"{evidence_prefix(paths.model, paths.version, promoted_by)}{ANSWERS_FILE}"
        content = self.store.read(key, most_bytes=2 * ANSWERS_LIMIT_BYTES)
        return None if content is None else unpack_answers(content, self.store.uri(key))


def check_signature(parts: GoldenParts) -> CheckResult:
    """Compare the tensors that the live server reports with the manifest's.

    :raises SlipwayError: it could not be asked.
    """
    metadata = parts.server.metadata(parts.spec.model)
    try:
        found = differences(parts.manifest.signature, signature_from_metadata(metadata))
    except ModelInvalidError as error:
        found = [str(error)]
    if found:
        return differs("signature", f"inputs or outputs are not the published ones: {found[0]}", found)
    return passed("signature", "inputs and outputs are the published ones")


def check_answers(parts: GoldenParts, promoted_by: str | None) -> CheckResult:
    """Ask the golden set's first rows, and hold the answers against the labels and against those of the release.

    :param promoted_by: the run that promoted the version; None: no record names it.
    :raises SlipwayError: something that is needed could not be read.
    """
    if parts.is_decoupled():
        return left_out("answers", "a decoupled model is not checked: it answers over streams only")
    validation = parts.spec.validation
    if isinstance(validation, CustomValidation):
        return left_out(
            "answers", "its scorer runs only in a release's pod: the answers are not scored again"
        )
    golden, config = parts.golden()
    limit = int(config.get("max_batch_size", 0)) or validation.batch_size
    batches = list(golden.batches(_rows_in_time(parts, golden, min(limit, validation.batch_size))))
    replies = parts.ask_each([inputs for _, inputs in batches])
    refused = [reply.fault for reply in replies if reply.fault]
    if refused:
        summary = (
            f"{len(refused)} of {len(replies)} golden requests were answered with an error: {refused[0]}"
        )
        return differs(
            "answers", summary, ["golden requests are answered with an error"], errors=len(refused)
        )
    try:
        answers = joined(
            [
                answer_of(
                    golden,
                    validation,
                    {name: reply.output(name) for name in validation.outputs},
                    rows.stop - rows.start,
                )
                for reply, (rows, _) in zip(replies, batches, strict=True)
            ]
        )
        kept = parts.reference(promoted_by)
        others = _others_changed(parts, golden, replies, batches, kept)
        if others:
            return differs("answers", "; ".join(others), others)
        return _judged(parts, golden, answers, None if kept is None else kept.answers)
    except (ValidationRefusedError, ModelInvalidError) as error:
        return differs("answers", str(error), [error.what])


def _rows_in_time(parts: GoldenParts, golden: GoldenSet, most: int) -> int:
    """Return how many rows a request may have to be answered within its limit, by how long one row takes alone."""
    if golden.request_rows is not None or most < _SEVERAL:
        return most
    (reply,) = parts.ask_each([golden.take([0])])
    if reply.fault:
        return most
    fitting = parts.spec.revalidation.timeout_s * _SHARE_OF_LIMIT / max(reply.latency_ms / 1000, 1e-6)
    return int(max(1, min(most, fitting)))


def _others_changed(
    parts: GoldenParts,
    golden: GoldenSet,
    replies: Sequence[GoldenAnswer],
    batches: Sequence[tuple[slice, Mapping[str, np.ndarray]]],
    kept: KeptAnswers | None,
) -> list[str]:
    """Say which outputs that are not scored are answered otherwise than when the version was released.

    :raises ModelInvalidError: an answer lacks one of them.
    """
    asked = parts.spec.validation.other_outputs
    found = []
    for name, then in ({} if kept is None or asked.policy == "off" else kept.others).items():
        now = joined(
            [
                golden.rows_first(name, reply.output(name), rows.stop - rows.start)
                for reply, (rows, _) in zip(replies, batches, strict=True)
            ]
        )
        if name in asked.ignore or len(then) < golden.rows or len(now) != golden.rows:
            continue
        share = float(rows_alike(then[: golden.rows], now).mean())
        if share < parts.spec.revalidation.agreement_min:
            found.append(f"output `{name}`: {share:.1%} of the rows have the same answer as at the release")
    return found


def _judged(
    parts: GoldenParts, golden: GoldenSet, answers: np.ndarray, reference: np.ndarray | None
) -> CheckResult:
    import pandas as pd  # a second, which only the task that asks shall pay

    validation = parts.spec.validation.model_copy(
        update={"agreement_min": parts.spec.revalidation.agreement_min}
    )
    kept = None if reference is None else reference[: golden.rows]
    if kept is not None and kept.shape[0] != golden.rows:
        kept = None  # another golden set than that of the release: it says nothing about it
    try:
        scores = score(golden, answers, kept, validation)
    except (SpecError, GoldenSetError) as error:
        raise UserError(str(error), remedy="correct `validation` in the release file") from error
    results = run_expectations(
        pd.DataFrame(scores.columns), scores.suite(), object_name(parts.spec.model, "revalidation")
    )
    # These rows give no figure, such as documents of which none is relevant: that isn't drift.
    of_nothing = [one for one in results if one["type"] == MEAN and one["observed"] is None]
    failed = [str(one["meaning"]) for one in results if not one["success"] and one not in of_nothing]
    found = scores.words()
    if scores.agreement is not None:
        found += f", agreement with the release's answers {scores.agreement:.4f}"
    numbers = {name: value for name, value in scores.figures().items() if isinstance(value, int | float)}
    if failed:
        summary = "; ".join(failed).replace("the stable version", "this version when it was released")
        return differs("answers", f"expected {summary}; found {found}", failed, **numbers)
    if of_nothing and not any(one["type"] == MEAN for one in results if one not in of_nothing):
        return left_out(
            "answers", f"the first {golden.rows} golden rows give no figure: nothing was compared"
        )
    if kept is None:
        summary = f"no reference: no answers of this version's release are kept. Against the labels: {found}"
        return no_reference("answers", summary, **numbers)
    return passed("answers", found, **numbers)


def check_latency(parts: GoldenParts, *, now: datetime, run_id: str) -> CheckResult:
    """Time single golden rows, and hold the median against that of the version's first look, which is kept.

    What is too slow is timed once more: another program may have kept the machine busy.

    :raises SlipwayError: something that is needed could not be read.
    """
    if parts.is_decoupled():
        return left_out("latency", "a decoupled model is not timed: it answers over streams only")
    golden, _ = parts.golden()
    key = latency_reference_key(parts.spec.model, parts.manifest.version)
    asked = parts.spec.revalidation
    measured = _timed(parts, golden)
    content = parts.store.read(key, most_bytes=LatencyReference.limit_bytes)
    if content is None:
        reference = LatencyReference(at=now, run=run_id, **measured)
        parts.store.write_once(key, reference.to_bytes())
        summary = f"no reference yet: p50 {measured['p50_ms']:.1f} ms is kept for later runs"
        return no_reference("latency", summary, **measured)
    reference = LatencyReference.from_bytes(content, parts.store.uri(key))
    limit_ms = max(reference.p50_ms * asked.latency_ratio_max, reference.p50_ms + asked.latency_slack_ms)
    if measured["p50_ms"] > limit_ms:
        measured = min(measured, _timed(parts, golden), key=lambda one: one["p50_ms"])
    first_ms = f"at the first check {reference.p50_ms:.1f} ms"
    summary = f"p50 {measured['p50_ms']:.1f} ms, {first_ms}; at most {limit_ms:.1f} ms"
    numbers = {**measured, "reference_p50_ms": reference.p50_ms, "limit_p50_ms": limit_ms}
    if measured["p50_ms"] > limit_ms:
        return differs("latency", summary, ["the median latency is above its limit"], **numbers)
    return passed("latency", summary, **numbers)


def _timed(parts: GoldenParts, golden: GoldenSet) -> dict[str, Any]:
    rows = [inputs for _, inputs in golden.batches(1)]
    asked = [rows[number % len(rows)] for number in range(_WARM_UP + min(_MEASURED, 4 * len(rows)))]
    replies = parts.ask_each(asked)[_WARM_UP:]
    refused = [reply.fault for reply in replies if reply.fault]
    if refused:
        raise UserError(
            "golden requests are answered with an error, so nothing can be timed",
            expected="answers without an error",
            found=refused[0],
            remedy="see the check of the answers",
        )
    taken_ms = sorted(reply.latency_ms for reply in replies)
    return {
        "p50_ms": statistics.median(taken_ms),
        "p95_ms": taken_ms[min(len(taken_ms) - 1, int(0.95 * len(taken_ms)))],
        "requests": len(taken_ms),
    }
