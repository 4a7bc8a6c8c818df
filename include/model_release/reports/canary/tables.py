"""The tables of a canary's page: what was decided, the steps, and the runs before the last one.

They do not grow with the canary: of very many rows the first and the last are shown, and the page says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from include.model_release.canary.verdict_text import duration, number
from include.model_release.reports.canary.evidence import DOCUMENT_FILE, earlier_windows_file
from include.model_release.reports.page_style import text

# So many rows of a table are shown at its beginning, and as many at its end; so much of a text.
_ROWS, _LETTERS = 100, 1000
_STATUS = {
    "pass": ("good", "✓ pass"),
    "fail": ("bad", "✗ fail"),
    "inconclusive": ("unsure", "? inconclusive"),
}


def decisions_section(run: Mapping[str, Any]) -> str:
    """Return the list of what was decided, numbered as in the chart of the weight."""
    decisions = run["decisions"]
    if not decisions:
        return ""
    items = [
        f"<li><time datetime='{text(decision['at'])}' class=soft>{clock(decision['at'])}</time> "
        f"{brief(decision['words'])}"
        + (f" <span class=soft>({brief(decision['by'])})</span>" if decision["by"] else "")
        + "</li>"
        for decision in _ends(decisions)
    ]
    left_out = len(decisions) - len(items)
    if not left_out:
        listed = f"<ol class=decisions>{''.join(items)}</ol>"
    else:
        listed = (
            f"<ol class=decisions>{''.join(items[:_ROWS])}</ol><p class=soft>{_left_out(left_out, 'decisions')}</p>"
            f"<ol class=decisions start={_ROWS + left_out + 1}>{''.join(items[_ROWS:])}</ol>"
        )
    return f"<section><h2>What was decided</h2>{listed}</section>"


def _ends(things: Sequence[Any]) -> Sequence[Any]:
    """Return the first and the last of very many."""
    return things if len(things) <= 2 * _ROWS else [*things[:_ROWS], *things[-_ROWS:]]


def _left_out(count: int, things: str) -> str:
    return f"{count:,} {things} between are not shown here; {DOCUMENT_FILE} has them all."


def _table_rows(
    things: Sequence[Mapping[str, Any]], row: Callable[[Mapping[str, Any]], str], words: str
) -> str:
    """Return the rows of a table of six columns; of very many the first and the last."""
    rows = [row(thing) for thing in _ends(things)]
    if len(rows) < len(things):
        told = _left_out(len(things) - len(rows), words)
        rows.insert(_ROWS, f"<tr><td class=soft colspan=6>{told}</td></tr>")
    return "".join(rows)


def brief(words: object) -> str:
    """Return words that others may have written, as text that is no markup; of very long ones the beginning."""
    told = str(words)
    return text(told if len(told) <= _LETTERS else f"{told[:_LETTERS]}…")


def steps_section(document: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return the table of the steps, those that were not reached too."""
    if not run["steps"]:
        return ""
    reached = _table_rows(run["steps"], _step, "steps")
    weights = {step["weight"] for step in run["steps"]}
    missed = "".join(
        f"<tr><td class=num>{step['weight']}&thinsp;%</td><td class=soft colspan=5>not reached</td></tr>"
        for step in document["planned"]
        if step["weight"] not in weights
    )
    return (
        "<section><h2>The steps</h2><div class=wide><table><thead><tr><th class=num>Weight</th>"
        "<th class=num>Watched</th><th class=num>Windows</th><th class=num>Candidate failed</th>"
        "<th class=num>Stable failed</th><th>Verdict</th></tr></thead>"
        f"<tbody>{reached}{missed}</tbody></table></div></section>"
    )


def _step(step: Mapping[str, Any]) -> str:
    totals = step["totals"] or {}
    watched = step["seconds"] if step["seconds"] is not None else totals.get("seconds")
    planned = "" if step["bake_s"] is None else f"<br><span class=soft>bake {duration(step['bake_s'])}</span>"
    blind = f"<br><span class=soft>+{step['blind_windows']} blind</span>" if step["blind_windows"] else ""
    verdict = _verdict(step["verdict"]) if step["verdict"] else "<span class=soft>not ended</span>"
    cells = [
        f"{step['weight']}&thinsp;%",
        (duration(watched) if watched is not None else "") + planned,
        f"{totals.get('windows', 0)}{blind}",
        _failed(totals, "candidate_") + _replays_failed(totals, ""),
        _failed(totals, "stable_") + _replays_failed(totals, "stable_"),
    ]
    return (
        "<tr>"
        + "".join(f"<td class='num nowrap'>{cell}</td>" for cell in cells)
        + f"<td class=nowrap>{verdict}</td></tr>"
    )


def _failed(totals: Mapping[str, Any], counts: str) -> str:
    requests = totals.get(f"{counts}requests")
    if not requests:
        return "no request"
    errors = totals[f"{counts}errors"]
    share = number(100 * errors / requests)
    return f"{share}&thinsp;%<br><span class=soft>{errors:,} of {requests:,}</span>"


def _replays_failed(totals: Mapping[str, Any], revision: str) -> str:
    if not totals.get("replayed_windows"):
        return ""
    errors, requests = totals[f"{revision}replayed_errors"], totals[f"{revision}replayed_requests"]
    return f"<br><span class=soft>replayed: {errors:,} of {requests:,}</span>"


def earlier_section(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of the runs that were broken off; nothing where there are none."""
    if not runs:
        return ""
    rows = _table_rows(runs, _earlier, "runs")
    return (
        "<section><h2>Begun anew</h2><p>The canary was begun anew, at its first step and with a judge without memory. "
        "What was seen before is not part of the verdict above.</p>"
        "<div class=wide><table><thead><tr><th class=num>Run</th><th>When</th><th class=num>Windows</th>"
        "<th>Last verdict</th><th>Reason</th><th>Recording</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _earlier(run: Mapping[str, Any]) -> str:
    if run["windows"]:
        last = run["windows"][-1]
        told = (
            f"<td class=nowrap>{_verdict(last['status'])}</td><td class=reason>{brief(last['reason'])}</td>"
            f"<td><code>{earlier_windows_file(run['number'])}</code></td>"
        )
    else:
        told = "<td></td><td class=reason>No window was judged.</td><td></td>"
    return (
        f"<tr><td class=num>{run['number']}</td><td class=nowrap>{span(run)}</td>"
        f"<td class=num>{run['totals']['windows']}</td>{told}</tr>"
    )


def _verdict(status: str) -> str:
    # The sign says it too, for readers who do not see the colour.
    mood, words = _STATUS[status]
    return f"<span class='{mood}'>{words}</span>"


def span(run: Mapping[str, Any]) -> str:
    """Return when a run began and ended, in UTC."""
    began, ended = datetime.fromisoformat(run["began_at"]), datetime.fromisoformat(run["ended_at"])
    shape = "%H:%M:%S" if began.date() == ended.date() else "%Y-%m-%d %H:%M:%S"
    return f"{began:%Y-%m-%d %H:%M:%S} to {ended.strftime(shape)} UTC"


def clock(at: str) -> str:
    """Return the time of day of `at` (ISO 8601)."""
    return f"{datetime.fromisoformat(at):%H:%M:%S}"
