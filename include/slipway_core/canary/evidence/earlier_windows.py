"""What the candidate does where stable is thin, compared with ceilings that earlier windows give.

At 99 % a window holds a handful of stable's requests, or none: a comparison in the same window then proves next to
nothing. So a window with more than `THIN` candidate requests to one of stable's is tested a second time, against what
stable did in all earlier windows of this canary, and against what the candidate itself did in its earlier steps
(`derived_ceiling.py`). Both are null hypotheses "the rate is at most this ceiling", tested as the policy's own ceilings
are: the factor of a window is fair for every rate up to the ceiling, and for failures in bursts up to the policy's
correlation (`e_process.py`), and the ceiling depends on what was seen before alone. With the first thin window half of
the wealth is divided off for them, as it is for replays: the evidence is a sum, and its promise stays.

**Stable's few requests may only raise the ceiling.** Where it fails twice or more of late, the candidate may fail
twice as often as it: what hits both is no fault. A single failure is chance and excuses nobody.

**A whole window of failures decides alone.** Every other window raises the wealth by a bounded factor, so that
`windows_to_fail` of them must agree. Where nearly all of ten or more requests fail, and there is nobody to compare
with, waiting for the next window only costs users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipway_core.canary.coverage.histogram_bounds import on_bounds
from slipway_core.canary.dispersion import weight_of
from slipway_core.canary.e_process import (
    PLENTY,
    Floats,
    NullHypothesis,
    Tally,
    WealthProcesses,
    log_factors,
)
from slipway_core.canary.evidence.derived_ceiling import error_ceiling, latency_ceiling
from slipway_core.canary.totals import Totals
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy, HypothesisName
from slipway_core.written_numbers import number

# More candidate requests than so many times stable's: a thin window.
THIN = 4
# Of the wealth at the first thin window, what is bet against the ceilings.
EARLIER_SHARE = 0.5
# A window of failures: so many requests at least, of which so large a share fails.
_WHOLE_REQUESTS, _WHOLE_SHARE = 10, 0.9
# How many of stable's latest thin windows say that it fails too, with so many failures at least, and what that excuses.
_RECENT_WINDOWS, _RECENT_ERRORS, _RECENT_FACTOR = 6, 2, 2.0
_LEVELS = (0.5, 0.9)
_ERROR_ROWS, _LATENCY_ROWS = (0, 1), (2, 3)
# A correlation of 1 has no bet.
_CORRELATIONS = (1e-6, 0.999)


def is_thin(window: Window) -> bool:
    """Return whether a window of users holds too few of stable's requests to compare the candidate with."""
    return window.source == "users" and window.candidate.requests > THIN * window.stable.requests


@dataclass(frozen=True)
class Earlier:
    """What was seen before a window.

    :param stable: stable's errors in all earlier windows of the canary.
    :param own: the candidate's in its earlier steps.
    :param latencies: stable's histogram of all earlier windows.
    """

    stable: Tally
    own: Tally
    latencies: Mapping[float, int]

    @classmethod
    def of(cls, canary: Totals, step: Totals, latencies: Mapping[float, int]) -> Earlier:
        """Return it from the sums of the whole canary and of its last step."""
        return cls(
            Tally(canary.stable_errors, canary.stable_requests),
            Tally(
                canary.candidate_errors - step.candidate_errors,
                canary.candidate_requests - step.candidate_requests,
            ),
            latencies,
        )


class EarlierWindows:
    """The tests of thin windows against the ceilings of earlier ones. `step_requests` and `step_errors` are the
    candidate's in the thin windows of this step.
    """

    def __init__(self, policy: AnalysisPolicy) -> None:
        shares = policy.shares
        relative = shares["errors"] + shares["latency"]
        self._shares: dict[HypothesisName, float] = {
            name: shares[name] / relative for name in ("errors", "latency")
        }
        rows = [
            *([self._shares["errors"] / len(_ERROR_ROWS)] * len(_ERROR_ROWS)),
            *([self._shares["latency"] / len(_LATENCY_ROWS)] * len(_LATENCY_ROWS)),
        ]
        room = 4.0 * policy.fail_threshold / EARLIER_SHARE
        self._caps: Floats = np.array([(room / share) ** (1 / policy.windows_to_fail) for share in rows])
        self._weights = weight_of(np.clip(np.array([policy.burst_correlation]), *_CORRELATIONS))
        self._processes = WealthProcesses(len(rows), 1, self._caps.tolist())
        self._initial_wealth: float | None = None
        self._recent: list[tuple[int, int]] = []
        self.step_requests = self.step_errors = 0
        self._slow = self._slow_allowed = 0.0

    @property
    def is_begun(self) -> bool:
        """Whether there was a thin window."""
        return self._initial_wealth is not None

    def begin_step(self) -> None:
        """Begin to count the thin windows of another step."""
        self._recent = []
        self.step_requests = self.step_errors = 0
        self._slow = self._slow_allowed = 0.0

    def observe(self, window: Window, earlier: Earlier, users_evidence: float, *, with_latency: bool) -> bool:
        """Test a window, if it is thin.

        :param users_evidence: the evidence of all tests together before it.
        :param with_latency: whether latencies count now.
        :returns: whether its latencies were tested.
        """
        if not is_thin(window):
            return False
        if self._initial_wealth is None:
            self._initial_wealth = EARLIER_SHARE * users_evidence
        candidate = window.candidate
        self._recent = [*self._recent, (window.stable.errors, window.stable.requests)][-_RECENT_WINDOWS:]
        asked = self._about_errors(window, earlier)
        latencies = _about_latency(window, earlier) if with_latency else {}
        asked.update(latencies)
        whole = candidate.requests >= _WHOLE_REQUESTS and (
            candidate.errors >= _WHOLE_SHARE * candidate.requests
        )
        self._processes.caps = np.where(
            whole & np.isin(np.arange(len(self._caps)), _ERROR_ROWS), PLENTY, self._caps
        )
        if asked:
            self._processes.multiply([*asked], log_factors([*asked.values()], self._weights))
        self.step_requests += candidate.requests
        self.step_errors += candidate.errors
        for one in latencies.values():
            self._slow += one.suspect.events
            self._slow_allowed += one.margin * one.suspect.count
        return bool(latencies)

    def added_to(self, users: Mapping[HypothesisName, float]) -> dict[HypothesisName, float]:
        """Return the evidence by test: what is left to the same windows, and what earlier ones have made."""
        if self._initial_wealth is None:
            return dict(users)
        mine = self._evidence()
        return {
            name: (1.0 - EARLIER_SHARE) * value + self._initial_wealth * mine.get(name, 0.0)
            for name, value in users.items()
        }

    def is_more_than(self, users: Mapping[HypothesisName, float], name: HypothesisName) -> bool:
        """Return whether most of a test's evidence is from the comparison with earlier windows."""
        if self._initial_wealth is None or name not in self._shares:
            return False
        return self._initial_wealth * self._evidence()[name] > (1.0 - EARLIER_SHARE) * users[name]

    def doubt(self, earlier: Earlier) -> str | None:
        """Return in words that the thin windows of this step exceed the ceiling of stable's earlier ones, or None."""
        if self._slow > self._slow_allowed:
            return (
                "Too little of stable to compare with, and the candidate is slower than stable was before, by more "
                f"than the ceiling that stable's {earlier.stable.count:,.0f} earlier requests give."
            )
        limit = error_ceiling(earlier.stable)
        if self.step_errors <= limit * self.step_requests:
            return None
        return (
            f"Too little of stable to compare with, and the candidate fails more often than stable did before: "
            f"{self.step_errors} errors in {self.step_requests} requests, where the ceiling that stable's "
            f"{earlier.stable.count:,.0f} earlier requests give is {number(100 * limit)} %."
        )

    def _evidence(self) -> dict[HypothesisName, float]:
        wealth = self._processes.wealth[:, 0]
        return {
            "errors": self._shares["errors"] * float(wealth[list(_ERROR_ROWS)].mean()),
            "latency": self._shares["latency"] * float(wealth[list(_LATENCY_ROWS)].mean()),
        }

    def _about_errors(self, window: Window, earlier: Earlier) -> dict[int, NullHypothesis]:
        errors = sum(one for one, _ in self._recent)
        requests = sum(one for _, one in self._recent)
        excused = _RECENT_FACTOR * errors / requests if errors >= _RECENT_ERRORS else 0.0
        candidate = Tally(window.candidate.errors, window.candidate.requests)
        ceilings = {
            row: max(error_ceiling(known), excused)
            for row, known in zip(_ERROR_ROWS, (earlier.stable, earlier.own), strict=True)
            # What the candidate itself did says nothing in its first step; of stable even nothing says something.
            if known.count > 0 or row == _ERROR_ROWS[0]
        }
        return {
            row: NullHypothesis(candidate, None, ceiling)
            for row, ceiling in ceilings.items()
            if ceiling < 1.0
        }

    # --- state ---

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready."""
        return {
            "initial_wealth": self._initial_wealth,
            "wealth": self._processes.to_dict(),
            "recent": [list(one) for one in self._recent],
            "step_requests": self.step_requests,
            "step_errors": self.step_errors,
            "slow": self._slow,
            "slow_allowed": self._slow_allowed,
        }

    @classmethod
    def from_dict(cls, policy: AnalysisPolicy, value: Mapping[str, Any]) -> EarlierWindows:
        """Rebuild it from `to_dict`'s form.

        :raises ValueError: a number is invalid, or the state is of other tests.
        :raises KeyError: a part is missing.
        :raises TypeError: a part has another form.
        """
        found = cls(policy)
        found._initial_wealth = _number_from_0(value["initial_wealth"])
        found._processes.restore(value["wealth"])
        found._recent = [_counts(one) for one in value["recent"]]
        found.step_errors, found.step_requests = _counts((value["step_errors"], value["step_requests"]))
        found._slow, found._slow_allowed = (_number_from_0(value[key]) for key in ("slow", "slow_allowed"))
        return found


def _about_latency(window: Window, earlier: Earlier) -> dict[int, NullHypothesis]:
    asked: dict[int, NullHypothesis] = {}
    # Its bounds may be others than stable's: what is not certain counts for the null hypothesis.
    candidate = on_bounds(window.candidate.latency_buckets, earlier.latencies, "fast")
    for row, level in zip(_LATENCY_ROWS, _LEVELS, strict=True):
        ceiling = latency_ceiling(earlier.latencies, level)
        one = None if ceiling is None else ceiling.hypothesis(candidate)
        if one is not None and one.is_testable and one.margin < 1.0:
            asked[row] = one
    return asked


def _number_from_0(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r}: not a number from 0")
    return float(value)


def _counts(value: Sequence[Any]) -> tuple[int, int]:
    events, count = value
    if (
        not all(isinstance(one, int) and not isinstance(one, bool) for one in value)
        or not 0 <= events <= count
    ):
        raise ValueError(f"{value!r}: not events out of a count")
    return events, count
