"""The comparison of mirrored requests as one HTML page, for people: nothing runs, nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from include.model_release.document_form import form_of
from include.model_release.reports.page_style import page, text

_STYLE = """
:root { --differ: #d58f00; --differ-ink: #8f6000; }
@media screen and (prefers-color-scheme: dark) { :root { --differ: #e0a93a; --differ-ink: #e0bd4a; } }
.cards { grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); }
.unsure { color: var(--differ-ink); }
.lead { font-size: 1.1rem; margin-top: .75rem; max-width: 52rem; }
section > p { max-width: 52rem; }
td.num, th.num { padding-left: .75rem; padding-right: 0; }
td.num + td:not(.num), th.num + th:not(.num) { padding-left: 1.25rem; }
"""
_VERDICTS = {
    "pass": ("good", "✓ compared, passed"),
    "fail": ("bad", "✗ compared, refused"),
    "inconclusive": ("unsure", "? inconclusive"),
}
_COUNTS = {
    "received": "arrived from the router",
    "ignored": "no inference of this model, part of a sequence, or by shared memory",
    "dropped": "dropped, for too many waited",
    "compared": "answered by both",
    "equal": "… with all outputs within the tolerances",
    "differ": "… with some output beyond them",
    "candidate_failed": "failed on the candidate only",
    "stable_failed": "failed on stable only",
    "both_failed": "failed on both",
}
_WIDTH = 900.0


@form_of("the evidence of the comparison")
def render_mirror_html(evidence: Mapping[str, Any]) -> str:
    """Return the page for what `mirror.mirror_evidence` makes. Raises UserError for another form."""
    report, limits = evidence["report"], evidence["limits"]
    parts = [_header(evidence)]
    if report is not None:
        parts += [
            _cards(evidence["verdict"], limits, report),
            _picture(report["counts"]),
            _outputs(report["outputs"], limits),
            _latency(report["latency_ms"]),
            _class_changes(report["class_changes"]),
            _differences(report["differences"]),
            _failures(report["failures"]),
            _counts(report),
        ]
    return page(
        f"{evidence['model']} version {evidence['version']}: mirrored requests",
        "\n".join(part for part in parts if part),
        "Slipway wrote this page from mirror.json, which lies beside it.",
        _STYLE,
    )


def _header(evidence: Mapping[str, Any]) -> str:
    mood, words = _VERDICTS[evidence["verdict"]["status"]]
    at = str(evidence["created_at"]).removesuffix("Z").removesuffix("+00:00").replace("T", " ")
    reason = str(evidence["verdict"]["reason"])
    return (
        f"<header><h1>{text(evidence['model'])} <span class=soft>version</span> {text(evidence['version'])} "
        f"<span class='verdict {mood}'>{words}</span></h1>"
        f"<p class=soft>Copies of users' requests, asked of version {text(evidence['stable_version'])} and of this "
        f"one; release <code>{text(evidence['release_id'])}</code>, {text(at)} UTC</p>"
        f"<p class=lead>{text(reason[:1].upper() + reason[1:])}.</p></header>"
    )


def _cards(verdict: Mapping[str, Any], limits: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    differ_max = limits["differ_percent_max"]
    cards = [
        ("Compared", f"{report['counts']['compared']:,}", f"{limits['requests']:,} were asked for"),
        (
            "Failed on the candidate alone",
            _percent(verdict["error_percent"]),
            f"at most {limits['error_percent_max']:g} %",
        ),
        (
            "Rows with the same class",
            _percent(None if verdict["agreement"] is None else 100 * verdict["agreement"]),
            f"at least {100 * limits['agreement_min']:g} %, output {limits['class_output']}",
        ),
        (
            "Answers that differ",
            _percent(verdict["differ_percent"]),
            "evidence only" if differ_max is None else f"at most {differ_max:g} %",
        ),
    ]
    shown = "".join(
        f"<div class=card>{text(name)}<b>{text(value)}</b><p class=soft>{text(note)}</p></div>"
        for name, value, note in cards
    )
    return f"<section class=cards>{shown}</section>"


def _picture(counts: Mapping[str, int]) -> str:
    """Draw what became of the requests that stable answered, as one bar."""
    shares = (
        ("equal", counts["equal"], "--good"),
        ("differ", counts["differ"], "--differ"),
        ("failed on the candidate", counts["candidate_failed"], "--bad"),
    )
    total = sum(number for _, number, _ in shares)
    if not total:
        return ""
    drawn, at = [], 0.0
    for _, number, colour in shares:
        width = _WIDTH * number / total
        drawn.append(
            f'<rect x="{at:.2f}" y="0" width="{width:.2f}" height="22" style="fill: var({colour})"/>'
        )
        at += width
    told = ", ".join(f"{number} {name}" for name, number, _ in shares)
    return (
        f'<section><h2>What became of them</h2><svg viewBox="0 0 {_WIDTH:g} 22" role="img" '
        f'aria-label="{text(told)}">{"".join(drawn)}</svg><p class=soft>{text(told)}.</p></section>'
    )


def _outputs(outputs: Mapping[str, Mapping[str, int]], limits: Mapping[str, Any]) -> str:
    rows = (
        (_code(name), _number(found["compared"]), _number(found["differ"])) for name, found in outputs.items()
    )
    note = (
        f"Two elements are equal when they differ by at most {limits['abs_tolerance']:g} + "
        f"{limits['rel_tolerance']:g} × the size of stable's. A better model differs, too."
    )
    return _table("Outputs", ("Output", "Compared#", "Differ#"), rows, note)


def _latency(latency_ms: Mapping[str, Mapping[str, float] | None]) -> str:
    names = ("avg", "p50", "p90", "p99")
    rows = (
        (text(side), *(_number(f"{found[name]:.2f}") for name in names))
        for side in ("stable", "candidate")
        if (found := latency_ms.get(side)) is not None
    )
    note = "As the comparer saw them; both versions were asked at the same moment. No limit is held against these."
    return _table("Latency (ms)", ("Version", *(f"{name}#" for name in names)), rows, note)


def _class_changes(changes: Sequence[Mapping[str, Any]]) -> str:
    rows = (tuple(_number(one[key]) for key in ("stable", "candidate", "rows")) for one in changes)
    return _table("Classes that changed, the most frequent first", ("Stable#", "Candidate#", "Rows#"), rows)


def _differences(differences: Sequence[Mapping[str, Any]]) -> str:
    rows = (
        (
            _code(one["request"]),
            _code(one["output"]),
            text(one["kind"]),
            _code(one["index"]) if one["index"] else "",
            _number(one["stable"]),
            _number(one["candidate"]),
            _number(one["elements"] or ""),
            _number(one["times"]),
        )
        for one in differences
    )
    headings = ("Request", "Output", "Differs in", "At", "Stable#", "Candidate#", "Elements#", "Times#")
    note = (
        "The element that is furthest beyond the tolerance, the worst request first. A request is named by the first "
        "16 digits of its body's SHA-256; nothing else of it is kept."
    )
    return _table("The largest differences", headings, rows, note)


def _failures(failures: Mapping[str, Mapping[str, int]]) -> str:
    rows = (
        (text(side), text(kind), _number(times))
        for side in ("candidate", "stable")
        for kind, times in failures.get(side, {}).items()
    )
    return _table("Failures", ("Version", "Kind", "Requests#"), rows)


def _counts(report: Mapping[str, Any]) -> str:
    rows = ((text(words), _number(report["counts"][name])) for name, words in _COUNTS.items())
    by_protocol = ", ".join(f"{number} by {name}" for name, number in report["protocols"].items())
    return _table(
        "All requests", ("Requests that …", "Number#"), rows, f"Of those answered by both: {by_protocol}."
    )


def _table(heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a section with a table, "" without rows; a column whose name ends with # holds numbers."""
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    if not body:
        return ""
    head = "".join(
        f"<th class=num>{text(name[:-1])}</th>" if name.endswith("#") else f"<th>{text(name)}</th>"
        for name in columns
    )
    return (
        f"<section><h2>{text(heading)}</h2>"
        + (f"<p class=soft>{text(note)}</p>" if note else "")
        + "<div class=wide>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _cell(cell: str) -> str:
    return cell if cell.startswith("<td") else f"<td>{cell}</td>"


def _number(value: object) -> str:
    if isinstance(value, int):
        value = f"{value:,}"
    elif isinstance(value, float):
        value = f"{value:.6g}"
    return f"<td class=num>{text(value)}</td>"


def _code(value: object) -> str:
    return f"<code>{text(value)}</code>"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} %"
