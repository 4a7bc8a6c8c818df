"""The text of a request for approval: what was done, what was measured, where the rest lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipway_core.record.state import ReleaseState
from slipway_core.written_numbers import number

# The figures of a validation report, by its keys.
_FIGURES = {
    "accuracy": "accuracy",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2": "R²",
    "score": "score",
    "agreement": "agreement",
}


def approval_body(
    state: ReleaseState,
    *,
    evidence_uri: str,
    validation: Mapping[str, Any] | None,
    benchmark: Mapping[str, Any] | None,
    candidate_url: str = "",
) -> str:
    """Return the request's text, in Markdown.

    :param state: the fold of the release's record.
    :param evidence_uri: where all reports lie.
    :param validation: the report of the gate `validate`; None if there is none.
    :param benchmark: the report of the gate `benchmark`; None if there is none.
    :param candidate_url: where the candidate can be tried; "" if it is not up yet.
    """
    against = (
        f"It would replace `{state.stable_storage_uri}`."
        if state.stable_storage_uri
        else "Nothing is live yet."
    )
    parts = [
        against,
        _preview(candidate_url),
        _not_compared(validation, benchmark),
        _not_looked_at(validation),
        _stages(state),
        _validation(validation),
        _benchmark(benchmark),
        _canary(state),
    ]
    return "\n\n".join([*filter(None, parts), f"All reports: `{evidence_uri}`"])


def _preview(candidate_url: str) -> str:
    if not candidate_url:
        return ""
    return f"The candidate is running, without users, at `{candidate_url}`: try it before you answer."


def _not_compared(*reports: Mapping[str, Any] | None) -> str:
    reasons = dict.fromkeys((report or {}).get("not_compared") for report in reports)
    sentences = [f"**Not compared with the stable version:** {reason}" for reason in reasons if reason]
    return "\n\n".join(sentences)


def _not_looked_at(validation: Mapping[str, Any] | None) -> str:
    found = (validation or {}).get("not_looked_at")
    names = ", ".join(f"`{name}`" for name in found) if isinstance(found, list | tuple) else ""
    return f"**Outputs that were not checked:** {names}" if names else ""


def _stages(state: ReleaseState) -> str:
    rows = [
        f"| {stage.name} | {stage.outcome} | {'' if stage.seconds is None else f'{stage.seconds:.1f} s'} |"
        for stage in state.stages
        if stage.outcome != "running"
    ]
    return _table("| stage | outcome | took |", rows)


def _validation(report: Mapping[str, Any] | None) -> str:
    numbers = (report or {}).get("numbers") or {}
    captions = {name: str(words).lower() for name, words in ((report or {}).get("captions") or {}).items()}
    figures = [
        f"{words} {number(numbers[name], 4)}"
        for name, words in {**captions, **_FIGURES}.items()
        if numbers.get(name) is not None
    ]
    unsure = "".join(f"\n- not sure: {warning}" for warning in (report or {}).get("warnings") or ())
    return (
        f"Validation on {numbers.get('rows', '?')} golden rows: {', '.join(figures)}.{unsure}"
        if figures
        else ""
    )


def _benchmark(verdict: Mapping[str, Any] | None) -> str:
    rows = [
        f"| {one['figure']} | {_number(one['candidate'])} {one['unit']} | {_number(one['stable'])} | {one['limit']} |"
        for one in (verdict or {}).get("comparisons") or ()
    ]
    return _table("| benchmark | candidate | stable | limit |", rows)


def _number(value: float | None) -> str:
    return "-" if value is None else number(value, 4)


def _canary(state: ReleaseState) -> str:
    rows = [
        f"| {step.weight} % | {step.verdict} | {step.candidate_errors} of {step.candidate_requests} failed | "
        f"{step.reason} |"
        for step in state.canary
    ]
    return _table("| canary at | verdict | requests | reason |", rows)


def _table(head: str, rows: Sequence[str]) -> str:
    if not rows:
        return ""
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])
