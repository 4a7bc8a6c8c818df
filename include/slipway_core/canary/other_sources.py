"""The windows that are not users': golden requests that were replayed, or streamed. Another source has its place here.

Each has wealth of its own, which begins with its first window (`golden_replay.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.canary.golden_replay import GoldenReplayEvidence
from slipway_core.canary.streamed import StreamedRequests, all_evidence, users_part
from slipway_core.canary.verdict_text import STREAMED
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy, HypothesisName


class OtherSources:
    """What they say. `replayed` and `streamed` are None until there was a window of the source."""

    def __init__(self, policy: AnalysisPolicy) -> None:
        self._policy = policy
        self.replayed: GoldenReplayEvidence | None = None
        self.streamed: StreamedRequests | None = None

    def observe(self, window: Window, users_alone: float) -> None:
        """Test a window of one of them.

        :param users_alone: what users' windows have made of a wealth of 1 before it.
        """
        begun = users_part(self.evidence) * users_alone
        if window.source == "stream":
            self.streamed = self.streamed or StreamedRequests(GoldenReplayEvidence(self._policy, begun))
            self.streamed.observe(window)
            return
        self.replayed = self.replayed or GoldenReplayEvidence(self._policy, begun)
        self.replayed.observe(window)

    @property
    def evidence(self) -> list[GoldenReplayEvidence]:
        """The evidence of those that have begun."""
        streamed = None if self.streamed is None else self.streamed.evidence
        return [one for one in (self.replayed, streamed) if one is not None]

    def added_to(self, users: Mapping[HypothesisName, float]) -> dict[HypothesisName, float]:
        """Return the evidence by test, from all sources."""
        return all_evidence(users, self.evidence)

    @property
    def replays_alone(self) -> float | None:
        """What a wealth of 1 would have become by replays alone; None: there were none."""
        return None if self.replayed is None else self.replayed.alone()

    @property
    def streams_alone(self) -> float | None:
        """What a wealth of 1 would have become by streams alone; None: there were none."""
        return None if self.streamed is None else self.streamed.evidence.alone()

    def latency_words(self, users_words: str, users_evidence: float) -> str:
        """Return the latencies in words of the source that says most of them against the candidate.

        :param users_words: what users' windows say of them, and
        :param users_evidence: how much.
        """
        words, most = users_words, users_evidence
        for one in self.evidence:
            if one.latency() > most:
                most = one.latency()
                words = one.latency_words() if one is self.replayed else one.latency_words(STREAMED)
        return words

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready; what has not begun is null."""
        return {
            "replayed": None if self.replayed is None else self.replayed.to_dict(),
            "streamed": None if self.streamed is None else self.streamed.to_dict(),
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take over a state of `to_dict`, among other keys; errors as of `GoldenReplayEvidence.from_dict`."""
        if value["replayed"] is not None:
            self.replayed = GoldenReplayEvidence.from_dict(self._policy, value["replayed"])
        if value["streamed"] is not None:
            self.streamed = StreamedRequests.from_dict(self._policy, value["streamed"])
