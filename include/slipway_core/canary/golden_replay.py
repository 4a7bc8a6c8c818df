"""What golden replays say against a candidate, beside what users' windows say, under one promise.

**Two wealth processes, added.** With the first replayed window half of the wealth that users' windows have made goes
to a second process, which grows by replayed windows alone; the first one goes on with the other half, by users'
windows alone. The evidence is the sum of the two. Each window's factor compares the two revisions over requests of
one source in the same window, and its expectation is at most 1 given all that was seen before, whatever the base rate
in it (`e_process.py`); so each process is a nonnegative supermartingale, and so is the sum. When the division takes
place, and which windows are replayed, follows from earlier windows alone, as every share must. Under "the candidate is
no worse, on users' requests and on golden ones" the chance that the sum ever reaches 1/alpha is at most alpha (Ville).

**Added and not multiplied**, because users' and replayed windows overlap in time. One pause of a pod hits both; a
product would count it twice, as two independent events. A sum asks for no independence. And as one window
raises the wealth at most `windows_to_fail`-th-root far, the two windows of the same time do not decide alone either.

**Nothing else is shared.** How failures come together (`dispersion.py`), stable's latency quantiles and the grace for a
model that has just been loaded are learnt by each process from its own windows: golden requests are another mix than
users', take other times, and are timed by the replayer and not by the router.

**Ceilings are for users.** They hold whatever stable does, so the way from the replayer to the revisions would count
as the candidate's own time and its faults. Replays are only ever compared with stable's.

Golden requests that are streamed (`streamed.py`) are a third source, with a process of their own by the same rule: with
its first window it takes half of what is users' then.

`tests/unit/core/canary/test_golden_replay.py` simulates the rate of false alarms of mixed windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.canary.hypothesis_tests import HypothesisTests
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy, HypothesisName

# Of the wealth at the first replay, what goes to replayed windows. Either process then has to grow twice as far.
REPLAY_SHARE = 0.5


class GoldenReplayEvidence:
    """The hypothesis tests on replayed windows.

    :param users_evidence: what is users' of the evidence, of all tests together, when the first window of this source
        comes.
    """

    def __init__(self, policy: AnalysisPolicy, users_evidence: float) -> None:
        self._initial_wealth = REPLAY_SHARE * users_evidence
        self._tests = HypothesisTests(
            policy.model_copy(update={"error_ceiling_percent": None, "latency_ceiling_ms": None})
        )

    def observe(self, window: Window) -> None:
        """Test the hypotheses on one replayed window."""
        self._tests.observe(window)

    def alone(self) -> float:
        """Return what a wealth of 1 would have become by replays alone."""
        return sum(self._tests.evidence().values())

    def latency(self) -> float:
        """Return what of `alone` is about latency."""
        return self._tests.evidence()["latency"]

    def latency_words(self, of: str = "replayed golden requests") -> str:
        """Return the latencies of the requests in words, which are called so; "" if none were seen."""
        words = self._tests.latency_words("latency")
        return f"{of}: {words}" if words else ""

    def part(self, name: HypothesisName) -> float:
        """Return what the windows have made of the wealth that they began with, for one test."""
        return self._initial_wealth * self._tests.evidence().get(name, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready."""
        return {"initial_wealth": self._initial_wealth, "tests": self._tests.to_dict()}

    @classmethod
    def from_dict(cls, policy: AnalysisPolicy, value: Mapping[str, Any]) -> GoldenReplayEvidence:
        """Rebuild it from `to_dict`'s form.

        :raises ValueError: a number is invalid, or the state is of other tests.
        :raises KeyError: a part is missing.
        :raises TypeError: a part has another form.
        """
        found = cls(policy, 0.0)
        found._initial_wealth = float(value["initial_wealth"])
        found._tests.restore(value["tests"])
        return found
