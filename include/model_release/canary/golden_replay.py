"""What replayed golden requests say against a candidate, beside what users' windows say, under one promise.

**Two fortunes, added.** With the first replayed window half of the fortune that users' windows have made goes to
a second gambler, who bets on replayed windows alone; the first one goes on with the other half, on users'
windows alone. The evidence is the sum of the two. Each window's bet compares the two revisions over requests of
one source in the same window, and is fair given all that was seen before, whatever the base rate in it
(`evidence.py`); so each fortune is a nonnegative supermartingale, and so is the sum. When the division takes place, and
which windows are replayed, follows from earlier windows alone, as every stake must. Under "the candidate is no worse,
on users' requests and on golden ones" the chance that the sum ever reaches 1/alpha is at most alpha (Ville).

**Added and not multiplied**, because users' and replayed windows overlap in time. One pause of a pod hits both; a
product would pay for it twice, as for two independent events. A sum asks for no independence. And as one window
raises a fortune at most `windows_to_fail`-th-root far, the two windows of the same time do not decide alone either.

**Nothing else is shared.** How failures clump (`dispersion.py`), stable's latency quantiles and the grace for a cold
model are learnt by each fortune from its own windows: golden requests are another mix than users', take other
times, and are timed by the replayer and not by the router.

**Ceilings are for users.** They hold whatever stable does, so the way from the replayer to the revisions would count
as the candidate's own time and its faults. Replays are only ever compared with stable's.

`tests/unit/model_release/canary/test_golden_replay.py` simulates the rate of false alarms of mixed windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.model_release.canary.hypothesis_tests import Questions
from include.model_release.metrics.samples import Window
from include.model_release.spec.rollout.analysis import AnalysisPolicy, HypothesisName

# Of the fortune at the first replay, what goes to bets on replays. Either fortune then has to grow twice as far.
REPLAY_SHARE = 0.5


class ReplayedEvidence:
    """The second gambler.

    :param users_evidence: the evidence, all families together, when the first replayed window comes.
    """

    def __init__(self, policy: AnalysisPolicy, users_evidence: float) -> None:
        self._stake = REPLAY_SHARE * users_evidence
        self._questions = Questions(
            policy.model_copy(update={"error_ceiling_percent": None, "latency_ceiling_ms": None})
        )

    def ask(self, window: Window) -> None:
        """Bet on one replayed window."""
        self._questions.ask(window)

    def alone(self) -> float:
        """Return what a stake of 1 would have become by replays alone."""
        return sum(self._questions.evidence().values())

    def latency(self) -> float:
        """Return what of `alone` is about latency."""
        return self._questions.evidence()["latency"]

    def slowness(self) -> str:
        """Say the latencies of replayed requests; "" where none were seen."""
        told = self._questions.slowness("latency")
        return f"replayed golden requests: {told}" if told else ""

    def added_to(self, users: Mapping[HypothesisName, float]) -> dict[HypothesisName, float]:
        """Return the evidence by family: what is left to bets on users' windows, and what replays have made."""
        replayed = self._questions.evidence()
        return {
            family: (1.0 - REPLAY_SHARE) * value + self._stake * replayed.get(family, 0.0)
            for family, value in users.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready."""
        return {"stake": self._stake, "questions": self._questions.to_dict()}

    @classmethod
    def from_dict(cls, policy: AnalysisPolicy, value: Mapping[str, Any]) -> ReplayedEvidence:
        """Rebuild it from `to_dict`'s form; raises ValueError, KeyError or TypeError where it is none."""
        found = cls(policy, 0.0)
        found._stake = float(value["stake"])
        found._questions.restore(value["questions"])
        return found
