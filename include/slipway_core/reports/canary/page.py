"""The evidence of a canary as one HTML page.

It does not grow with the canary: of very many decisions, steps and runs the first and the last are shown, and the page
says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slipway_core.canary.verdict_text import (
    HYPOTHESIS_WORDS,
    by_hypothesis,
    duration,
    margins,
    meaning,
    source_words,
)
from slipway_core.documents.document_form import format_errors
from slipway_core.reports.canary.charts import canary_charts
from slipway_core.reports.canary.document import (
    DOCUMENT_FILE,
    WINDOWS_FILE,
    CanaryEvidence,
    CanaryRun,
    JudgedWindow,
    Statistics,
    Sums,
    earlier_windows_file,
)
from slipway_core.reports.html_page import render_page
from slipway_core.written_numbers import number

# So many of a list are shown at its beginning, and as many at its end; so many letters of a text.
_ENDS, _LETTERS = 100, 1000
_OUTCOMES = {
    "promoted": ("good", "✓ promoted"),
    "rolled_back": ("bad", "✗ rolled back"),
    "refused": ("bad", "✗ refused"),
    "failed": ("bad", "✗ failed"),
    "cancelled": ("bad", "✗ cancelled"),
    "open": ("unsure", "… under way"),
}
_GIVEN_UP = "A canary that cannot be judged within its time limit is rolled back."


@format_errors("the evidence of the canary")
def render_canary_html(evidence: CanaryEvidence) -> str:
    """Return the page for a canary's evidence; the last run is shown in full.

    :raises UserError: where the evidence holds what cannot be shown.
    """
    run = evidence.runs[-1] if evidence.runs else None
    return render_page(
        "canary/page.html.j2",
        evidence=evidence,
        run=run,
        outcome=_OUTCOMES.get(evidence.outcome, _OUTCOMES["open"]),
        lead=_brief(_lead(evidence, run)),
        earlier=_Ends.of(evidence.runs[:-1]),
        document_file=DOCUMENT_FILE,
        windows_file=WINDOWS_FILE,
        recording=earlier_windows_file,
        brief=_brief,
        clock=_clock,
        duration=duration,
        number=number,
        span=_span,
        **({} if run is None else _in_full(evidence, run)),
    )


def _in_full(evidence: CanaryEvidence, run: CanaryRun) -> dict[str, object]:
    """Return what the page says of the last run alone."""
    reached = {step.weight for step in run.steps}
    return {
        "cards": _cards(evidence, run),
        "charts": canary_charts(run) if run.windows or len(run.weights) > 1 else (),
        "decisions": _Ends.of(run.decisions),
        "steps": _Ends.of(run.steps),
        "missed": [step for step in evidence.planned if step.weight not in reached],
        "last": next((window for window in reversed(run.windows) if window.window is not None), None),
        "hypotheses": _hypotheses(run.windows[-1].statistics) if run.windows else (),
        "source_words": source_words,
        "no_sums": Sums(),
        "alpha": evidence.policy.alpha,
        "margins": margins(evidence.policy),
    }


@dataclass(frozen=True)
class _Ends:
    """The first and the last of many, and how many between them are left out; of few all are first."""

    first: Sequence[Any]
    last: Sequence[Any] = ()
    left_out: int = 0

    @classmethod
    def of(cls, things: Sequence[Any]) -> _Ends:
        if len(things) <= 2 * _ENDS:
            return cls(things)
        return cls(things[:_ENDS], things[-_ENDS:], len(things) - 2 * _ENDS)


@dataclass(frozen=True)
class _Card:
    """A figure that stands out, with what it is and a note."""

    name: str
    value: str
    note: str


# --- what became of it ---


def _lead(evidence: CanaryEvidence, run: CanaryRun | None) -> str:
    """Say in words how the canary ended, and what that means."""
    if run is None:
        reason = evidence.reason
        return "The release ended before this version had any users." + (f" {reason}" if reason else "")
    if not run.windows and evidence.stable_storage_uri is None:
        return "First version: no canary, because there was nothing to compare it with."
    last = run.windows[-1] if run.windows else None
    begun = next((done for done in run.decisions if done.kind == "rollback_started"), None)
    if begun is not None and (last is None or begun.reason != last.reason):
        return (
            f"A rollback was started: {_sentence(begun.reason or 'no reason is recorded')} {_last_word(last)}"
        )
    if last is None:
        return "No window was judged."
    ended = {
        "promoted": "The candidate passed every step and is the stable version now.",
        "rolled_back": "Users are back on the stable version.",
    }.get(evidence.outcome, "")
    given_up = last.status == "inconclusive" and evidence.outcome == "rolled_back"
    parts = [ended, last.reason, meaning(last.status), _GIVEN_UP if given_up else ""]
    return " ".join(_sentence(part) for part in parts if part)


def _last_word(last: JudgedWindow | None) -> str:
    """Say where the judge stood when something else ended the canary; `last` is the last window."""
    if last is None:
        return "No window had been judged."
    condemned = "" if last.status == "fail" else "The judge had not found against the candidate. "
    return f"{condemned}Its last word was: {_sentence(last.reason)}"


def _cards(evidence: CanaryEvidence, run: CanaryRun) -> list[_Card]:
    totals, exposure = run.totals, evidence.exposure
    if not totals.windows:
        return []
    requests, errors = exposure.candidate_requests, exposure.candidate_errors
    if requests is None:
        requests, errors = totals.candidate_requests, totals.candidate_errors
    statistics = run.windows[-1].statistics
    fails_at = f"it fails at {number(statistics.threshold)}"
    cards = [
        _Card("Evidence against the candidate", number(statistics.total_evidence), fails_at),
        _Card("Requests to the candidate", f"{requests:,}", f"{errors:,} of them failed"),
    ]
    if totals.replayed_requests:
        failed = f"{totals.replayed_errors:,} of them failed; not counted among users'"
        cards.append(_Card("Golden requests replayed to it", f"{totals.replayed_requests:,}", failed))
    if totals.streamed_windows:
        failed = f"{totals.streamed_errors:,} of them failed; not counted among users'"
        cards.append(_Card("Golden requests streamed to it", f"{totals.streamed_requests:,}", failed))
    no_data = f", {totals.no_data_windows:,} of them without data" if totals.no_data_windows else ""
    watched = f"{duration(totals.seconds)} of traffic{no_data}"
    cards.append(_Card("Windows judged", f"{totals.windows:,}", watched))
    seconds = exposure.seconds_from_first_bad_answer_to_weight_0
    if seconds is not None:
        source = "each time as seen by the metrics source"
        cards.append(_Card("From the first bad answer to weight 0", duration(seconds), source))
    return cards


def _hypotheses(statistics: Statistics) -> list[tuple[str, float]]:
    return [
        (HYPOTHESIS_WORDS.get(name, name).capitalize(), value)
        for name, value in by_hypothesis(statistics.evidence)
    ]


# --- in words ---


def _brief(words: object) -> str:
    """Return words that others may have written; of very long ones the beginning."""
    text = str(words)
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"


def _span(run: CanaryRun) -> str:
    """Return when a run began and ended, in UTC."""
    began, ended = run.began_at, run.ended_at
    shape = "%H:%M:%S" if began.date() == ended.date() else "%Y-%m-%d %H:%M:%S"
    return f"{began:%Y-%m-%d %H:%M:%S} to {ended.strftime(shape)} UTC"


def _clock(at: datetime) -> str:
    """Return the time of day of `at`."""
    return f"{at:%H:%M:%S}"


def _sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."
