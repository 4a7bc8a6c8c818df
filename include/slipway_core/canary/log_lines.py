"""A canary as a log tells it while it happens: a line a window, in columns, and a line where something changes."""

from __future__ import annotations

from datetime import datetime

from slipway_core.canary.latency import quantile_ms
from slipway_core.canary.verdict import Verdict
from slipway_core.canary.verdict_text import duration, source_words
from slipway_core.metrics.samples import Sample
from slipway_core.written_numbers import number

_P99 = 0.99
_BETWEEN = " | "
_LONGEST_STATUS = len("inconclusive")


def step_line(step: int, steps: int, weight: int, seen: int | None, bake_s: float, window_s: float) -> str:
    """Return the line about a step whose weight is reached.

    :param step: its index, from 0.
    :param steps: how many there are.
    :param seen: the candidate's percent as the traffic shows it; None: it does not name the candidate.
    """
    traffic = (
        "the traffic does not name the candidate" if seen is None else f"{seen} % is seen in the traffic"
    )
    return (
        f"step {step + 1} of {steps}: weight {weight} % is set, {traffic}; watched for at least {duration(bake_s)}, "
        f"judged every {duration(window_s)}"
    )


def window_line(verdict: Verdict, at: datetime) -> str:
    """Return the line about a window that was judged; what decides comes first, since a long line is cut on a screen.

    :param at: when it was judged, UTC.
    """
    statistics, window = verdict.statistics, verdict.window
    parts = [
        f"{at:%H:%M:%S}",
        "   - " if statistics.weight is None else f"{statistics.weight:>3} %",
        f"{verdict.status:<{_LONGEST_STATUS}}",
        f"evidence {number(statistics.total_evidence):>7} of {number(statistics.threshold)}",
    ]
    if window is None:
        parts.append("no data from the metrics source")
    else:
        parts += [f"candidate {_counts(window.candidate)}", f"stable {_counts(window.stable)}"]
        parts += [words] if (words := source_words(window.source)) else []
    return _BETWEEN.join(parts)


def _counts(sample: Sample) -> str:
    p99 = quantile_ms(sample.latency_buckets, _P99) if sample.requests else None
    p99_ms = "-" if p99 is None else f"{'>' if p99[1] else ''}{number(p99[0])} ms"
    return f"{sample.requests:>7,} req {sample.errors:>5,} err p99 {p99_ms:>8}"
