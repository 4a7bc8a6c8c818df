"""The evidence of a canary as one HTML page: nothing runs, nothing is loaded, light and dark, good in print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.model_release.canary.verdict_text import (
    HYPOTHESIS_WORDS,
    REPLAYED,
    by_hypothesis,
    duration,
    margins,
    meaning,
    number,
)
from include.model_release.document_form import form_of
from include.model_release.reports.canary.charts import canary_charts
from include.model_release.reports.canary.evidence import DOCUMENT_FILE, WINDOWS_FILE
from include.model_release.reports.canary.tables import (
    brief,
    clock,
    decisions_section,
    earlier_section,
    span,
    steps_section,
)
from include.model_release.reports.page_style import page, text
from include.model_release.spec.rollout.analysis import AnalysisPolicy

_STYLE = """
:root { --stable: #0072b2; --candidate: #d55e00; --errors: #882e8a; --latency: #00795a;
  --error_ceiling: #8f6a00; --latency_ceiling: #3a6ea5; }
@media screen and (prefers-color-scheme: dark) { :root { --stable: #56b4e9; --candidate: #ff9a3d;
  --errors: #d58ee0; --latency: #3fc79a; --error_ceiling: #e0bd4a; --latency_ceiling: #8fb8ea; } }
.cards { grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); }
header p { max-width: 52rem; }
.lead { font-size: 1.1rem; margin-top: .75rem; }
.unsure { color: var(--soft); }
.nowrap { white-space: nowrap; }
.chart { margin: 1.5rem 0 0; }
.chart h3 { font-size: 1rem; margin: 0; }
.chart p { max-width: 56rem; font-size: .92rem; }
.chart .wide > svg { min-width: 44rem; }
svg * { stroke-linejoin: round; }
svg text { fill: var(--ink); }
ol.decisions { padding-left: 1.6rem; }
ol.decisions li { margin: .45rem 0; }
ol.decisions time { font-variant-numeric: tabular-nums; white-space: nowrap; }
table + p, .wide + .wide, .wide + p { margin-top: 1rem; }
li::marker { font-weight: 700; }
td.reason { min-width: 16rem; }
td.num, th.num { padding-left: .75rem; padding-right: 0; }
td.num + td:not(.num), th.num + th:not(.num) { padding-left: 1.25rem; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .75rem 1rem;
  overflow-x: auto; white-space: pre-wrap; }
@media print { .cards { grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); }
  .chart { break-inside: avoid; } .chart .wide > svg { min-width: 0; } .wide { overflow: visible; }
  td.reason { min-width: 0; } table { font-size: 9.5pt; } }
"""

_OUTCOMES = {
    "promoted": ("good", "✓ promoted"),
    "rolled_back": ("bad", "✗ rolled back"),
    "refused": ("bad", "✗ refused"),
    "failed": ("bad", "✗ failed"),
    "cancelled": ("bad", "✗ cancelled"),
    "open": ("unsure", "… under way"),
}
_GIVEN_UP = "A canary that cannot be judged in the time it is given is taken back."


@form_of("the evidence of the canary")
def render_canary_html(document: Mapping[str, Any]) -> str:
    """Return the page for what `canary_evidence.canary_evidence` makes; the last run is shown in full.

    Raises UserError for a document of another form.
    """
    runs = document["runs"]
    run = runs[-1] if runs else None
    parts = [_header(document, run)]
    if run is not None:
        parts += [
            _cards(document, run),
            _charts(run),
            decisions_section(run),
            steps_section(document, run),
            _last_window(run),
        ]
        parts.append(_how_to_read(document, run))
    parts += [earlier_section(runs[:-1]), _recompute(run)]
    return page(
        f"{document['model']} version {document['version']}: canary",
        "\n".join(part for part in parts if part),
        f"Slipway wrote this page from {DOCUMENT_FILE}, which lies beside it.",
        _STYLE,
    )


# --- what became of it ---


def _header(document: Mapping[str, Any], run: Mapping[str, Any] | None) -> str:
    mood, words = _OUTCOMES.get(document["outcome"], _OUTCOMES["open"])
    until = f"until {clock(document['until'])} UTC" if run is None else span(run)
    return (
        f"<header><h1>{text(document['model'])} <span class=soft>version</span> {text(document['version'])} "
        f"<span class='verdict {mood}'>{words}</span></h1>"
        f"<p class=soft>The canary of release <code>{text(document['release_id'])}</code>, {until}</p>"
        f"<p class=lead>{brief(_lead(document, run))}</p></header>"
    )


def _lead(document: Mapping[str, Any], run: Mapping[str, Any] | None) -> str:
    """Say in words how the canary ended, and what that means."""
    if run is None:
        told = document["reason"]
        return "The release ended before any user was led to this version." + (f" {told}" if told else "")
    if not run["windows"] and document["stable_storage_uri"] is None:
        return "This is the first version of the model: there was nothing to compare it with, and no canary."
    last = run["windows"][-1] if run["windows"] else None
    begun = next((done for done in run["decisions"] if done["kind"] == "rollback_started"), None)
    if begun is not None and (last is None or begun["reason"] != last["reason"]):
        return f"A rollback was begun: {_sentence(begun['reason'])} {_last_word(last)}"
    if last is None:
        return "No window was judged."
    ended = {
        "promoted": "The candidate passed every step and is the stable version now.",
        "rolled_back": "Users are back on the stable version.",
    }.get(document["outcome"], "")
    given_up = last["status"] == "inconclusive" and document["outcome"] == "rolled_back"
    parts = [ended, last["reason"], meaning(last["status"]), _GIVEN_UP if given_up else ""]
    return " ".join(_sentence(part) for part in parts if part)


def _last_word(last: Mapping[str, Any] | None) -> str:
    """Say where the judge stood when something else ended the canary; `last` is the last window."""
    if last is None:
        return "No window had been judged."
    condemned = "" if last["status"] == "fail" else "The judge had not condemned the candidate. "
    return f"{condemned}Its last word was: {_sentence(last['reason'])}"


def _cards(document: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    totals, exposure = run["totals"], document["exposure"]
    if not totals["windows"]:
        return ""
    requests, errors = exposure["candidate_requests"], exposure["candidate_errors"]
    if requests is None:
        requests, errors = totals["candidate_requests"], totals["candidate_errors"]
    statistics = run["windows"][-1]["statistics"]
    blind = f", {totals['blind_windows']} of them blind" if totals["blind_windows"] else ""
    cards = [
        (
            "Evidence against the candidate",
            number(statistics["total_evidence"]),
            f"it fails at {number(statistics['threshold'])}",
        ),
        ("Requests to the candidate", f"{requests:,}", f"{errors:,} of them failed"),
        *_replay_card(totals),
        ("Windows judged", f"{totals['windows']:,}", f"{duration(totals['seconds'])} of traffic{blind}"),
    ]
    seconds = exposure["seconds_from_first_bad_answer_to_weight_0"]
    if seconds is not None:
        cards.append(
            (
                "From the first bad answer to weight 0",
                duration(seconds),
                "each time as seen by the metrics source",
            )
        )
    return (
        "<section class=cards>"
        + "".join(f"<div class=card>{a}<b>{b}</b><span class=soft>{c}</span></div>" for a, b, c in cards)
        + "</section>"
    )


def _replay_card(totals: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    replayed, failed = totals.get("replayed_requests", 0), totals.get("replayed_errors", 0)
    counts = f"{failed:,} of them failed; not counted among users'"
    return [("Golden requests replayed to it", f"{replayed:,}", counts)] if replayed else []


def _charts(run: Mapping[str, Any]) -> str:
    if not run["windows"] and len(run["weights"]) < 2:
        return ""
    drawn = "".join(
        f"<section class=chart><h3>{text(chart.heading)}</h3><p class=soft>{text(chart.caption)}</p>"
        f"<div class=wide>{chart.svg}</div></section>"
        for chart in canary_charts(run)
    )
    return f"<h2>What was seen</h2>{drawn}"


def _last_window(run: Mapping[str, Any]) -> str:
    seen = [window for window in run["windows"] if window["window"] is not None]
    if not seen:
        return ""
    last = seen[-1]
    source = f" of {REPLAYED}" if last["source"] == "replay" else ""
    rows = "".join(
        f"<tr><th scope=row>{name}</th>"
        + "".join(f"<td class=num>{value}</td>" for value in values)
        + "</tr>"
        for name, values in _comparison(last)
    )
    return (
        "<section><h2>The last window that was seen</h2>"
        f"<p class=soft>Window {last['number']}{source}, {clock(last['at'])} UTC, "
        f"{duration(last['window']['seconds'])} at "
        f"{last['weight']}&thinsp;% of the traffic.</p>"
        "<div class=wide><table><thead><tr><th></th><th class=num>Candidate</th><th class=num>Stable</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{_numbers(run['windows'][-1]['statistics'])}</section>"
    )


def _comparison(window: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    both = ("candidate", "stable")
    counts = [window["window"][name] for name in both]
    seen = [window["seen"][name] for name in both]
    rows = [
        ("Requests", [f"{each['requests']:,}" for each in counts]),
        ("Requests per second", [_known(each["requests_per_second"]) for each in seen]),
        ("Failed", [f"{each['errors']:,}" for each in counts]),
        ("Failed in percent", [_known(each["error_percent"], "&thinsp;%") for each in seen]),
    ]
    for quantile in ("p50", "p90", "p99"):
        values = [
            ("above " if quantile in each["latency_ms"]["beyond"] else "")
            + _known(each["latency_ms"][quantile], "&thinsp;ms")
            for each in seen
        ]
        rows.append((f"Latency {quantile}", values))
    return rows


def _numbers(statistics: Mapping[str, Any]) -> str:
    """Say the statistic of the last verdict, question by question."""
    rows = [
        (HYPOTHESIS_WORDS.get(name, name).capitalize(), value, None)
        for name, value in by_hypothesis(statistics["evidence"])
    ]
    rows.append(("All questions together", statistics["total_evidence"], statistics["threshold"]))
    rows.append(
        ("That it is no worse beyond the margin", statistics["no_worse"], statistics["no_worse_threshold"])
    )
    body = "".join(
        f"<tr><th scope=row>{text(name)}</th><td class=num>{number(value)}</td>"
        f"<td class=num>{'' if limit is None else number(limit)}</td></tr>"
        for name, value, limit in rows
    )
    return (
        "<div class=wide><table><thead><tr><th>Evidence after the last window</th><th class=num>Value</th>"
        f"<th class=num>Threshold</th></tr></thead><tbody>{body}</tbody></table></div>"
        "<p class=soft>Failures within a window were taken to come together with a correlation of up to "
        f"{number(statistics['correlation'])}.</p>"
    )


# --- how to use it ---


def _how_to_read(document: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    if not run["windows"]:
        return ""
    policy = AnalysisPolicy.from_mapping(document["policy"])
    return (
        "<section><h2>How to read this</h2><p>In each window the candidate's answers are compared with stable's in "
        "the same window, so that what hits both counts for nothing. The evidence is what a bet of 1 against “the "
        "candidate is no worse” has become: it shrinks while the candidate does well and multiplies when it does "
        "worse. For a candidate that is no worse it reaches the threshold in at most "
        f"{100 * policy.alpha:g}&thinsp;% of canaries, however often one looks. No worse means "
        f"{text(margins(policy))}; a hatched stretch was seen by nobody and speaks for neither side.</p>"
        f"{_about_replays(run)}</section>"
    )


def _about_replays(run: Mapping[str, Any]) -> str:
    if not run["totals"].get("replayed_windows"):
        return ""
    return (
        "<p>Users sent too little to judge by, so golden requests were replayed to both versions (shaded). They are "
        "not drawn and not counted among users' requests. Half of what the bets on users' windows had made by then was "
        "bet on them instead; a fault that golden requests do not meet, they cannot show.</p>"
    )


def _recompute(run: Mapping[str, Any] | None) -> str:
    if run is None or not run["windows"]:
        return ""
    again = run["recomputed"]
    if again["agrees"]:
        checked = (
            "When this page was written every verdict was computed again from its windows, and all came out "
            "the same."
        )
    else:
        checked = (
            "<span class=bad>When this page was written the verdicts were computed again, and window "
            f"{again['first_difference']} came out otherwise than recorded.</span>"
        )
    return (
        f"<section><h2>Compute it again</h2><p>{checked} In a checkout of Slipway:</p>"
        f"<pre><code>python -m include.model_release.canary {WINDOWS_FILE} --explain</code></pre></section>"
    )


def _known(value: float | None, unit: str = "") -> str:
    return "unknown" if value is None else f"{number(value)}{unit}"


def _sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."
