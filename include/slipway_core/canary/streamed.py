"""What streamed golden requests say of a candidate, and what a step needs of them before it may pass.

No counter of a router or of Triton shows an error that stands inside a stream: the stream ends well, and each inference
of it may have failed. So a model that is asked over streams is asked its golden set over streams as well, both
revisions alike, during every window; those windows have the source `stream`. Their failures are held against the
candidate as replayed requests' are (`golden_replay.py`), by a wealth process of their own.

**Once one window of streams was seen in a canary, none of its steps passes without them.** A step needs as many good
answers of both revisions as it needs of users' requests (`minimum_candidate_requests`), and in the last window of
streams both must have given one: probes that have stopped, a candidate that hangs, and a stable revision that cannot
be asked look alike, and none of them passes. A window in which nobody could be asked is one without requests.

They never stand for users: they are no bake time, and make up no minimum of users' requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipway_core.canary.golden_replay import REPLAY_SHARE, GoldenReplayEvidence
from slipway_core.canary.totals import Totals
from slipway_core.canary.verdict_text import STREAMED
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy, HypothesisName


class StreamedRequests:
    """All that the judge keeps of streamed windows.

    :param evidence: the hypothesis tests on them.
    """

    def __init__(self, evidence: GoldenReplayEvidence) -> None:
        self.evidence = evidence
        self._is_silent = True

    def observe(self, window: Window) -> None:
        """Test the hypotheses on one window, and note whether both revisions gave a good answer in it."""
        if window.stable.requests or window.candidate.requests:
            self.evidence.observe(window)
        good = [sample.requests - sample.errors for sample in (window.stable, window.candidate)]
        self._is_silent = min(good) == 0

    def lacking(self, step: Totals, needed: int) -> str | None:
        """Return in words what the step lacks before it may pass; None: nothing."""
        had = step.streams_that_count
        if not step.streamed_windows or had < needed:
            return (
                f"Too few answers inside streams were read: {had} {STREAMED} in this step were answered by both "
                f"versions, {needed} are needed ({streams_summary(step)})."
            )
        if self._is_silent:
            return (
                f"It is unknown what streams hold now: of the last window's {STREAMED} not one was answered by both "
                f"versions ({streams_summary(step)})."
            )
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready."""
        return {"evidence": self.evidence.to_dict(), "silent": self._is_silent}

    @classmethod
    def from_dict(cls, policy: AnalysisPolicy, value: Mapping[str, Any]) -> StreamedRequests:
        """Rebuild it from `to_dict`'s form; errors as of `GoldenReplayEvidence.from_dict`."""
        found = cls(GoldenReplayEvidence.from_dict(policy, value["evidence"]))
        # Whatever is not a plain no is silence.
        found._is_silent = value["silent"] is not False
        return found


def unread(window: Window) -> Window:
    """Return a window of streams that the cluster disturbed: their answers do not count, so nothing was read in it."""
    return Window(window.seconds, Sample(0, 0), Sample(0, 0), "stream")


def streams_summary(total: Totals) -> str:
    """Return the counts of streamed requests in words."""
    return (
        f"{total.streamed_requests} {STREAMED}, {total.streamed_errors} errors; "
        f"stable {total.stable_streamed_requests}, {total.stable_streamed_errors} errors"
    )


def users_part(others: Sequence[GoldenReplayEvidence]) -> float:
    """Return the part of users' wealth that was left to users' windows when each of the others took its share."""
    return float((1.0 - REPLAY_SHARE) ** len(others))


def all_evidence(
    users: Mapping[HypothesisName, float], others: Sequence[GoldenReplayEvidence]
) -> dict[HypothesisName, float]:
    """Return the evidence by test: what is left to users' windows, and what each of the others has made."""
    left = users_part(others)
    return {name: left * value + sum(one.part(name) for one in others) for name, value in users.items()}
