"""A canary as a log tells it while it happens: a line a window, in columns, and a line where something changes."""

from __future__ import annotations

from include.model_release.canary.latency import quantile_ms
from include.model_release.canary.verdict import Verdict
from include.model_release.canary.verdict_text import REPLAYED, duration, number
from include.model_release.metrics.samples import Sample

_P99 = 0.99
_BETWEEN = " | "


def step_line(step: int, steps: int, weight: int, bake_s: float, window_s: float) -> str:
    """Return the line about a step that begins.

    :param step: its index, from 0.
    :param steps: how many there are.
    """
    return (
        f"step {step + 1} of {steps}: the candidate has {weight} % of the users, watched for at least "
        f"{duration(bake_s)}, judged every {duration(window_s)}"
    )


def window_line(verdict: Verdict, *, elapsed_s: float, seen_weight: int | None) -> str:
    """Return the line about a window that was judged.

    :param elapsed_s: how long the step has been watched.
    :param seen_weight: the candidate's percent as the traffic shows it, beside the step's; None: not known.
    """
    told, window = verdict.statistics, verdict.window
    set_weight = "-" if told.weight is None else f"{told.weight} %"
    seen = "-" if seen_weight is None else f"{seen_weight} %"
    parts = [f"{duration(elapsed_s):>10}", f"weight {set_weight:>5}, seen {seen:>5}"]
    if window is None:
        parts.append("no data from the metrics source")
    else:
        parts += [f"stable {_counts(window.stable)}", f"candidate {_counts(window.candidate)}"]
    parts += [f"evidence {number(told.total_evidence):>7} of {number(told.threshold)}", verdict.status]
    if window is not None and window.source == "replay":
        parts.append(REPLAYED)
    return _BETWEEN.join(parts)


def _counts(sample: Sample) -> str:
    p99 = quantile_ms(sample.latency_buckets, _P99)
    p99_ms = "-" if p99 is None else f"{'>' if p99[1] else ''}{number(p99[0])} ms"
    return f"{sample.requests:>7,} requests {sample.errors:>5,} errors p99 {p99_ms:>9}"
