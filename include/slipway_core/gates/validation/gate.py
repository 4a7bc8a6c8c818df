"""The validation gate: the scores of a golden set's answers, the report, and the refusal.

The expectations are only named here, as great-expectations suites spell them; the operator runs them. What each of them
says is compared with the interval of its figure: a limit inside it is not decided by so few rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipway_core.errors import (
    ValidationInconclusiveError,
    ValidationRefusedError,
)
from slipway_core.gates.outcome import gate_outcome
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.health import HealthCheck
from slipway_core.gates.validation.kind import kind_of
from slipway_core.gates.validation.other_outputs.result import (
    OutputResult,
    Status,
    report_parts,
)
from slipway_core.gates.validation.quality.slices import SLICES_SHOWN, SliceFigure
from slipway_core.gates.validation.quality.suites import SuiteResult, judge_suites
from slipway_core.gates.validation.scores import Array, ValidationScores
from slipway_core.gates.validation.sureness import Sureness, sureness_of
from slipway_core.spec.validation import Validation
from slipway_core.tensors import ModelSignature


def score(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: Validation
) -> ValidationScores:
    """Score the answers to all golden rows as `validation.kind` says.

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output is not of that kind.
    :raises GoldenSetError: the labels cannot show what is asked for.
    """
    return kind_of(validation).score(golden, answers, stable_answers)


def validation_report(
    *,
    model: str,
    version: int,
    stable_version: int | None,
    created_at: str,
    numbers: ValidationScores,
    results: Sequence[Mapping[str, Any]],
    signature: ModelSignature | None = None,
    not_compared: str = "",
    health: Sequence[HealthCheck] = (),
    rows_taken: str = "",
    suites: Sequence[SuiteResult] = (),
    slices: Sequence[SliceFigure] = (),
    slices_left_out: Sequence[str] = (),
    other_outputs: Sequence[OutputResult] = (),
    data_docs: str = "",
) -> dict[str, Any]:
    """Return the report, ready for JSON and for `report_html.render_report_html`.

    :param not_compared: why a stable version that is live was not asked.
    :param results: the suite's expectations as they went:
        `{"type", "kwargs", "meaning", "success", "observed"}`.
    :param rows_taken: how each input's rows were taken, in words.
    :param suites: what the release file expects besides, of the golden set and of the answers.
    :param slices: accuracy and agreement by slice.
    :param slices_left_out: which of their limits had no figure to check, in words.
    :param other_outputs: what was found of the outputs that are not scored.
    :param data_docs: where the pages of great-expectations begin, below the release's evidence; "": there are none.
    """
    sureness = sureness_of(numbers, results)
    insists = numbers.validation.on_inconclusive == "refuse"
    further = judge_suites(suites, numbers.validation.confidence, insists=insists)
    failures = [
        *_failures(numbers, results, health, sureness),
        *further.failures,
        *(one.describe() for one in slices if one.decision == "not_met"),
        *_output_summaries(other_outputs, "fail"),
    ]
    unsure = [
        *sureness.undecided,
        *further.undecided,
        *(one.describe() for one in slices if one.decision == "inconclusive"),
        *slices_left_out,
    ]
    undecided = unsure if insists else []
    left_out = [f"nothing was compared with the version that is live: {not_compared}"] if not_compared else []
    warnings = list(dict.fromkeys([*left_out, *unsure, *further.warnings, *_warnings(health)]))
    warnings += _output_summaries(other_outputs, "warn")
    if stable_version is not None:
        warnings += _output_summaries(other_outputs, "not_looked_at")
    found = numbers.words()
    if numbers.agreement is not None:
        found += f", agreement with version {stable_version} {numbers.agreement:.4f}"
    return {
        "model": model,
        "version": version,
        "stable_version": stable_version,
        "not_compared": not_compared or None,
        "created_at": created_at,
        "kind": numbers.kind,
        "outcome": gate_outcome(failures, undecided, warnings),
        "reasons": failures or undecided,
        "warnings": warnings,
        "found": found,
        "numbers": numbers.figures(),
        "expectations": [dict(result) for result in sureness.expectations],
        "health": [one.to_dict() for one in health],
        "suites": list(further.tables),
        "data_docs": data_docs or None,
        "slices": [one.to_dict() for one in slices[:SLICES_SHOWN]],
        **report_parts(other_outputs),
        **numbers.details(),
        "worst": list(numbers.worst),
        "rows_taken": rows_taken or None,
        "confidence": numbers.validation.confidence,
        "signature": signature.model_dump(mode="json") if signature else None,
    }


def _failures(
    numbers: ValidationScores,
    results: Sequence[Mapping[str, Any]],
    health: Sequence[HealthCheck],
    sureness: Sureness,
) -> list[str]:
    """Return why the version fails, the expectations first; what is not decided fails only by itself."""
    if not results:
        return ["no expectation was checked"]
    failed = [
        str(one.get("meaning") or one.get("type"))
        for one in sureness.expectations
        if not one.get("success")
        and not (one.get("decision") == "inconclusive" and numbers.validation.on_inconclusive == "refuse")
    ]
    losses = numbers.losses()
    broken = [f"{one.name.replace('_', ' ')}: {one.summary}" for one in health if one.status == "fail"]
    return [*failed, *([losses] if losses else []), *broken]


def _output_summaries(results: Sequence[OutputResult], status: Status) -> list[str]:
    nobody = "not checked: " if status == "not_looked_at" else ""
    return [f"output `{one.name}`: {nobody}{one.summary}" for one in results if one.status == status]


def _warnings(health: Sequence[HealthCheck]) -> list[str]:
    return [f"{one.name.replace('_', ' ')}: {one.summary}" for one in health if one.status == "warn"]


def require_validation(report: Mapping[str, Any]) -> None:
    """Return where the report's outcome is a pass, with or without warnings.

    :raises ValidationInconclusiveError: it is undecided, and the release file refuses undecided versions.
    :raises ValidationRefusedError: it is anything else; both tell the numbers.
    """
    if report["outcome"] in ("pass", "warn"):
        return
    if report["outcome"] == "inconclusive":
        raise ValidationInconclusiveError(
            f"so few golden rows do not decide on {report['model']} version {report['version']}",
            expected="every limit outside its figure's interval (`validation.on_inconclusive: refuse`)",
            found=f"{'; '.join(report['reasons'])}; {report['found']}",
            remedy="Take more rows into the golden set and release a new version, or set `on_inconclusive: warn`.",
        )
    raise ValidationRefusedError(
        f"{report['model']} version {report['version']} did not pass validation",
        expected="; ".join(report["reasons"]),
        found=report["found"],
        remedy="Look at the worst answers in evidence/validation.html, train again, release a new version.",
    )
