"""What a run of `model_revalidation` has found, as HTML pages: one for each model, one for the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway_core.operations.revalidation.findings import Finding, status_words
from slipway_core.operations.revalidation.report import CheckResult, ModelReport, RunReport
from slipway_core.reports.html_page import figure, render_page

_CLOSED_SHOWN = 20

_OUTCOMES = {
    "passed": ("good", "✓ as released"),
    "differs": ("bad", "✗ differs"),
    "could_not_check": ("bad", "✗ could not check"),
    "no_reference": ("", "no reference"),
    "left_out": ("", "not made"),
}
_STANDINGS = {
    "in_flight": ("", "left alone: a release is under way"),
    "nothing_live": ("", "nothing is live"),
    "could_not_check": ("bad", "✗ could not check"),
    "not_enabled": ("", "switched off"),
}


@dataclass(frozen=True)
class CheckVerdict:
    """How a model or a check stands: a class of the style sheet, and words."""

    style: str
    words: str


@dataclass(frozen=True)
class _CheckRow:
    """One check, ready for its table."""

    result: CheckResult
    verdict: CheckVerdict
    numbers: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class _ModelRow:
    """One model's line on the run's page."""

    report: ModelReport
    verdict: CheckVerdict
    open: Sequence[Finding]


def verdict_of(report: ModelReport) -> CheckVerdict:
    """Return how a model stands, the worst of its checks first."""
    if report.standing in _STANDINGS:
        return CheckVerdict(*_STANDINGS[report.standing])
    for outcome in ("differs", "could_not_check"):
        if any(one.outcome == outcome for one in report.checks):
            return CheckVerdict(*_OUTCOMES[outcome])
    if not report.is_as_released:
        return CheckVerdict("", "as released, as far as there is a reference")
    return CheckVerdict(*_OUTCOMES["passed"])


def render_model_html(report: ModelReport, findings: Sequence[Finding]) -> str:
    """Return the page of one model.

    :param findings: all of the model's, as they lie there after the run.
    """
    rows = [
        _CheckRow(
            one,
            CheckVerdict(*_OUTCOMES[one.outcome]),
            [(name, figure(value)) for name, value in sorted(one.numbers.items())],
        )
        for one in report.checks
    ]
    past = sorted((one for one in findings if one.status == "closed"), key=lambda one: one.last_seen_at)
    return render_page(
        "revalidation/model.html.j2",
        report=report,
        verdict=verdict_of(report),
        checks=rows,
        open=[one for one in findings if one.is_open],
        suspected=[one for one in findings if one.status == "suspected"],
        closed=[(one, status_words(one)) for one in reversed(past[-_CLOSED_SHOWN:])],
    )


def render_run_html(
    run: RunReport, reports: Sequence[ModelReport], open_findings: Mapping[str, Sequence[Finding]]
) -> str:
    """Return the page of a run, with a link to the page of each model.

    :param open_findings: by model.
    """
    rows = [_ModelRow(one, verdict_of(one), open_findings.get(one.model, ())) for one in reports]
    return render_page(
        "revalidation/run.html.j2",
        run=run,
        models=rows,
        findings=sum(len(row.open) for row in rows),
        as_released=sum(one.is_as_released for one in reports),
        unchecked=len(run.not_looked_at) + sum(bool(one.not_checked) for one in reports),
    )
