"""The comparison of mirrored requests as one HTML page, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.documents.document_form import format_errors
from slipway_core.reports.html_page import render_page

_WIDTH = 900.0


@format_errors("the evidence of the comparison")
def render_mirror_html(evidence: Mapping[str, Any]) -> str:
    """Return the page for what `mirror_comparison.mirror_evidence` makes.

    :raises UserError: for a document of another form.
    """
    report = evidence["report"]
    return render_page(
        "mirror/page.html.j2",
        evidence=evidence,
        report=report,
        limits=evidence["limits"],
        width=_WIDTH,
        shares=() if report is None else _shares(report["counts"]),
        latencies=() if report is None else _latencies(report["latency_ms"]),
        failures=() if report is None else _failures(report["failures"]),
    )


@dataclass(frozen=True)
class _Share:
    """A part of the bar: what became of `requests` requests, drawn from `x` in the page's color `color`."""

    name: str
    requests: int
    colour: str
    x: float
    width: float


def _shares(counts: Mapping[str, int]) -> list[_Share]:
    """Return what became of the requests that stable answered; nothing if there were none."""
    found = (
        ("equal", counts["equal"], "good"),
        ("differ", counts["differ"], "differ"),
        ("failed on the candidate", counts["candidate_failed"], "bad"),
    )
    total = sum(requests for _, requests, _ in found)
    shares: list[_Share] = []
    for name, requests, colour in found if total else ():
        x = shares[-1].x + shares[-1].width if shares else 0.0
        shares.append(_Share(name, requests, colour, x, _WIDTH * requests / total))
    return shares


def _latencies(latency_ms: Mapping[str, Mapping[str, float] | None]) -> list[tuple[str, Mapping[str, float]]]:
    return [(side, found) for side in ("stable", "candidate") if (found := latency_ms.get(side)) is not None]


def _failures(failures: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str, int]]:
    sides = ("candidate", "stable")
    return [(side, kind, requests) for side in sides for kind, requests in failures.get(side, {}).items()]
