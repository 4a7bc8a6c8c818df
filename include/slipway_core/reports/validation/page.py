"""The validation report as one HTML page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from slipway_core.documents.document_form import format_errors
from slipway_core.gates.outcome import GateOutcome
from slipway_core.gates.validation.kind import PageFigure
from slipway_core.reports.data_docs.page import INDEX
from slipway_core.reports.html_page import render_page
from slipway_core.reports.validation.examples import Examples, known_kind


@format_errors("the validation report")
def render_report_html(report: Mapping[str, Any]) -> str:
    """Return the page for what `expectations.validation_report` or `signature_report.signature_report` makes.

    Missing parts are left out.

    :raises UserError: for a report of another form.
    """
    numbers, stable = report.get("numbers") or {}, report.get("stable_version")
    confusion, signature = report.get("confusion") or {}, report.get("signature") or {}
    classes, counts = confusion.get("classes") or [], confusion.get("counts") or []
    return render_page(
        "validation/page.html.j2",
        report=report,
        state=_state(report.get("outcome")),
        suite_names={"golden": "The golden set itself", "answers": "What else is expected of the answers"},
        data_docs=INDEX if report.get("data_docs") == INDEX else None,
        shares=_shares(report, numbers, stable),
        sizes=_sizes(report, numbers),
        rows=_Rows.of(numbers),
        confusion={"classes": classes, "counts": counts} if len(classes) > 1 else None,
        examples=Examples.of(str(report.get("kind", "")), report.get("worst") or (), stable),
        signature=[
            (kind, tensor) for kind in ("input", "output") for tensor in signature.get(f"{kind}s") or ()
        ],
    )


@dataclass(frozen=True)
class _Share:
    """A figure from 0 to 1, its interval, and what it must at least be. `state`: good, bad, or unsure."""

    caption: str
    value: float
    least: float | None
    state: str
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class _Size:
    """A figure that is no share, and its limit: at least or at most that, as `words` say."""

    caption: str
    value: float
    limit: float | None
    words: str
    state: str
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class _Rows:
    """How many golden rows there were, and in words which of them had no good answer."""

    count: int
    bad: str

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> _Rows | None:
        if numbers.get("rows") is None:
            return None
        row_counts = (
            ("not_finite_rows", "with answers that are not finite"),
            ("unanswered_rows", "without an answer"),
        )
        bad = ", ".join(f"{numbers[name]} {words}" for name, words in row_counts if numbers.get(name))
        return cls(int(numbers["rows"]), bad)


def _state(outcome: object) -> str:
    """Return the gate's outcome; an unknown one is not a pass."""
    return outcome if isinstance(outcome, str) and outcome in get_args(GateOutcome) else "fail"


def _shares(report: Mapping[str, Any], numbers: Mapping[str, Any], stable: object) -> list[_Share]:
    """Return the shares: those of the kind, those that its scores caption, and the agreement."""
    of_kind = [one for one in _figures(report) if not one.words]
    agreement = f"Agreement with version {stable}"
    captioned = {**(report.get("captions") or {}), "agreement": agreement}
    columns = {"agreement": "agrees"}
    figures = [
        *of_kind,
        *(PageFigure(name, caption, columns.get(name, name)) for name, caption in captioned.items()),
    ]
    return [
        _Share(
            _caption(one, numbers), float(numbers[one.name]), _limit(numbers, one.name), *_sure(report, one)
        )
        for one in figures
        if numbers.get(one.name) is not None
    ]


def _sizes(report: Mapping[str, Any], numbers: Mapping[str, Any]) -> list[_Size]:
    return [
        _Size(
            _caption(one, numbers),
            float(numbers[one.name]),
            _known(numbers.get(one.limit or f"{one.name}_min")),
            one.words,
            *_sure(report, one),
        )
        for one in _figures(report)
        if one.words and numbers.get(one.name) is not None
    ]


def _figures(report: Mapping[str, Any]) -> tuple[PageFigure, ...]:
    """Return the figures of the report's kind; of one that is not installed here, all that its scores leave out."""
    kind = known_kind(str(report.get("kind", "")))
    if kind is not None:
        return kind.page_figures
    numbers = report.get("numbers") or {}
    known = {"rows", "agreement", "not_finite_rows", "unanswered_rows", *(report.get("captions") or {})}
    return tuple(
        PageFigure(name, name, name, f"{name}_max", "at most")
        if f"{name}_max" in numbers
        else PageFigure(name, name, name, f"{name}_min", "at least")
        for name, value in numbers.items()
        if value is not None
        and not isinstance(value, str)
        and not name.endswith(("_min", "_max"))
        and name not in known
    )


def _caption(figure: PageFigure, numbers: Mapping[str, Any]) -> str:
    """Return what a figure is called, with the others of the report's numbers that its caption names."""
    return re.sub(r"\{(\w+)\}", lambda named: str(numbers.get(named[1], "")), figure.caption)


def _sure(report: Mapping[str, Any], figure: PageFigure) -> tuple[str, tuple[float, float] | None]:
    """Return whether a figure is good, bad or unsure, and its interval; root errors are squared in the table."""
    of = next((one for one in report.get("expectations") or () if _column(one) == figure.column), None)
    if of is None:
        return "good", None
    low_high = of.get("interval")
    interval = None if not low_high else (float(low_high[0]), float(low_high[1]))
    if interval is not None and figure.is_root:
        interval = (max(interval[0], 0.0) ** 0.5, max(interval[1], 0.0) ** 0.5)
    if not of.get("success"):
        return "bad", interval
    return ("unsure" if of.get("decision") in ("inconclusive", "no_limit") else "good"), interval


def _column(expectation: Mapping[str, Any]) -> object:
    return (expectation.get("kwargs") or {}).get("column")


def _limit(numbers: Mapping[str, Any], name: str) -> float | None:
    """Return the least value of a share; 0 means that there is no limit."""
    return _known(numbers.get(f"{name}_min")) or None


def _known(value: Any) -> float | None:
    return None if value is None else float(value)
