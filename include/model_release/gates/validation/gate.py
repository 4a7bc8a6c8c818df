"""The validation gate: the scores of a golden set's answers, the report, and the refusal.

The expectations are only named here, as great-expectations suites spell them; the operator runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.model_release.errors import ValidationRefusedError
from include.model_release.gates.validation.classification import score_classification
from include.model_release.gates.validation.golden_set import GoldenSet
from include.model_release.gates.validation.regression import score_regression
from include.model_release.gates.validation.scores import Array, ValidationScores
from include.model_release.gates.validation.text import score_text
from include.model_release.spec.validation import RegressionValidation, TextValidation, Validation
from include.model_release.tensors import ModelSignature


def score(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: Validation
) -> ValidationScores:
    """Score the answers to all golden rows as `validation.kind` says.

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output is not of that kind.
    :raises GoldenSetError: the labels cannot show what is asked for.
    """
    if isinstance(validation, RegressionValidation):
        return score_regression(golden, answers, stable_answers, validation)
    if isinstance(validation, TextValidation):
        return score_text(golden, answers, stable_answers, validation)
    return score_classification(golden, answers, stable_answers, validation)


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
) -> dict[str, Any]:
    """Return the report, ready for JSON and for `report_html.render_report_html`.

    `not_compared` says why a stable version that is live was not asked. `results` are the suite's expectations
    as they went: `{"type", "kwargs", "meaning", "success", "observed"}`.
    """
    failed = [
        str(result.get("meaning") or result.get("type")) for result in results if not result.get("success")
    ]
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
        "outcome": "pass" if results and not failed else "refused",
        "reasons": failed if results else ["no expectation was checked"],
        "found": found,
        "numbers": numbers.figures(),
        "expectations": [dict(result) for result in results],
        **numbers.details(),
        "worst": list(numbers.worst),
        "signature": signature.model_dump(mode="json") if signature else None,
    }


def require_validation(report: Mapping[str, Any]) -> None:
    """Raise ValidationRefusedError, with the numbers, unless the report's outcome is a pass."""
    if report["outcome"] == "pass":
        return
    raise ValidationRefusedError(
        f"{report['model']} version {report['version']} did not pass validation",
        expected="; ".join(report["reasons"]),
        found=report["found"],
        remedy="Look at the worst answers in evidence/validation.html, train again, release a new version.",
    )
