"""The smoke test as one HTML page, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from slipway_core.documents.document_form import format_errors
from slipway_core.reports.html_page import render_page

_WIDTH, _HEIGHT = 900.0, 160.0
# The picture's height is never less than this many MiB, so that noise does not look like growth.
_LEAST_SPAN_MIB = 8.0


@format_errors("the evidence of the smoke test")
def render_smoke_test_html(evidence: Mapping[str, Any]) -> str:
    """Return the page for what `smoke_test_evidence` makes.

    :raises UserError: for a document of another form.
    """
    report = evidence["report"]
    robustness, memory = report["robustness"], report["memory"]
    return render_page(
        "smoke_test/page.html.j2",
        evidence=evidence,
        report=report,
        first_ms=_first_ms(report["loads"]),
        loads=list(enumerate(report["loads"], 1)),
        growth=evidence["verdict"]["growth"],
        inputs=[] if robustness is None else _inputs(robustness["probes"]),
        curve=None if memory is None else _curve(memory["samples"]),
        executions=_executions(report["instances"]),
        width=_WIDTH,
        height=_HEIGHT,
    )


def _first_ms(loads: Sequence[Mapping[str, Any]]) -> float | None:
    times = [load["first_request_ms"] for load in loads if load["first_request_ms"] is not None]
    return median(times) if times else None


@dataclass(frozen=True)
class _Input:
    """One boundary input with what came of it over each protocol; `harm` is empty if nothing was wrong."""

    name: str
    grpc: str
    http: str
    message: str
    harm: str
    log: tuple[str, ...]


def _inputs(probes: Sequence[Mapping[str, Any]]) -> list[_Input]:
    """Return the boundary inputs, those that do harm first."""
    names = list(dict.fromkeys(str(one["name"]) for one in probes))
    rows = [_input(name, [one for one in probes if one["name"] == name]) for name in names]
    return sorted(rows, key=lambda row: not row.harm)


def _input(name: str, probes: Sequence[Mapping[str, Any]]) -> _Input:
    by_protocol = {one["via"]: str(one["outcome"]) for one in probes}
    harms = [_harm(one) for one in probes]
    answer = next((str(one["message"]) for one in probes if one["outcome"] != "answered"), "")
    stuck = next((str(one["stuck"]) for one in probes if one.get("stuck")), "")
    answer = f"the golden row got no answer after it: {stuck}" if stuck else answer
    log = tuple(line for one in probes for line in one["log"])
    return _Input(
        name,
        by_protocol.get("grpc", "–"),
        by_protocol.get("http", "–"),
        answer,
        "; ".join(dict.fromkeys(harm for harm in harms if harm)),
        log,
    )


def _harm(probe: Mapping[str, Any]) -> str:
    if probe["died"]:
        return str(probe["died"])
    if probe["outcome"] == "silent":
        return "neither an answer nor an error"
    return f"the golden row differs after it: {probe['golden']}" if probe["golden"] else ""


@dataclass(frozen=True)
class _Curve:
    """The memory over the requests, as a line to draw, and the numbers at its corners."""

    points: str
    requests: int
    first_mib: float
    last_mib: float
    low_mib: float
    high_mib: float


def _curve(samples: Sequence[Sequence[float]]) -> _Curve | None:
    """Return the line; None for fewer than two samples."""
    if len(samples) < 2 or not samples[-1][0]:
        return None
    values = [mib for _, mib in samples]
    low, high = min(values), max(values)
    spare = max(0.0, _LEAST_SPAN_MIB - (high - low)) / 2
    low, high = max(0.0, low - spare), high + spare
    points = " ".join(
        f"{_WIDTH * number / samples[-1][0]:.1f},{_HEIGHT * (1 - (mib - low) / (high - low)):.1f}"
        for number, mib in samples
    )
    return _Curve(points, int(samples[-1][0]), values[0], values[-1], low, high)


def _executions(instances: Mapping[str, Any] | None) -> list[tuple[str, str, int]]:
    """Return model, instance and the requests that it answered."""
    seen = {} if instances is None else instances["seen"]
    return [(model, name, count) for model, counts in seen.items() for name, count in counts.items()]
