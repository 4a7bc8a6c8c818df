"""The windows of a canary as recordings, which the judge reads again, and whether it comes to the same verdicts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from slipway_core.canary.recordings import replay
from slipway_core.record.events import RecordError
from slipway_core.reports.canary.document import (
    WINDOWS_FILE,
    CanaryEvidence,
    CanaryStep,
    JudgedWindow,
    Recomputed,
    earlier_windows_file,
)
from slipway_core.spec.rollout.analysis import AnalysisPolicy

# The judge puts these words before the source's own; judging again puts them there again.
_NO_DATA_FRAME = re.compile(r"\(\d+ in a row\): ")
# Another processor may round the last digits of an exponential otherwise.
_SAME_EVIDENCE = 1e-6


def windows_jsonl(evidence: CanaryEvidence, run: int | None = None) -> str:
    """Return the windows of one run as the lines that `python -m slipway_core.canary` reads.

    A document without runs gives its policy alone.

    :param run: the run's number; None means the last one.
    :raises RecordError: where there is no such run.
    """
    chosen = evidence.runs[-1:] if run is None else [known for known in evidence.runs if known.number == run]
    if run is not None and not chosen:
        raise RecordError(
            f"the evidence of {evidence.model} {evidence.version} has no run {run}",
            expected=f"a number from 1 to {len(evidence.runs)}",
            found=str(run),
        )
    lines: list[dict[str, Any]] = [{"policy": evidence.policy.to_dict()}]
    for known in chosen:
        lines += _lines(known.steps, known.windows)
    return "".join(json.dumps(line) + "\n" for line in lines)


def recordings(evidence: CanaryEvidence) -> dict[str, str]:
    """Return the recording of each run by the name of the file it belongs in, the last run's first."""
    return {
        WINDOWS_FILE: windows_jsonl(evidence),
        **{
            earlier_windows_file(run.number): windows_jsonl(evidence, run.number)
            for run in evidence.runs[:-1]
        },
    }


def judged_again(
    steps: Sequence[CanaryStep], windows: Sequence[JudgedWindow], policy: AnalysisPolicy
) -> Recomputed:
    """Judge a run again from its windows alone and say whether every verdict is as recorded."""
    lines = [json.dumps(line) for line in _lines(steps, windows)]
    again = replay(lines, "the recorded windows", policy)
    for window, (_, verdict) in zip(windows, again, strict=True):
        recorded = window.statistics.total_evidence
        same = math.isclose(verdict.statistics.total_evidence, recorded, rel_tol=_SAME_EVIDENCE)
        if verdict.status != window.status or not same:
            return Recomputed(agrees=False, first_difference=window.number)
    return Recomputed(agrees=True, first_difference=None)


def _lines(steps: Sequence[CanaryStep], windows: Sequence[JudgedWindow]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run's recording; a step that saw no window changes no verdict."""
    number, not_seen = 0, list[str]()
    for window in windows:
        at = window.at.isoformat()
        if window.step != number:
            number = window.step
            step = steps[number - 1]
            begun = {"weight": step.weight, "bake_s": step.bake_s}
            yield {"at": step.intended_at.isoformat(), "step": begun}
        if (window.not_seen or []) != not_seen:
            not_seen = window.not_seen or []
            yield {"at": at, "coverage": {"not_seen": not_seen}}
        if window.window is None:
            yield {"at": at, "no_data": _NO_DATA_FRAME.split(window.reason, maxsplit=1)[-1]}
        else:
            yield {"at": at, "window": window.window.recorded}
