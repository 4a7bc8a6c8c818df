"""The way of one rollback: no new request to the candidate, then nobody on it, beside the good version's return."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from slipway.traffic.drain import CandidateDrain, is_off
from slipway_core.rollout.dialects.registry import dialect_named
from slipway_core.rollout.next_action import Done, RollBack, Withdraw
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.pods.drain import Drained
from slipway_core.rollout.reconciler import Reconciliation


class Reach(Protocol):
    """Brings the InferenceService to a goal, or until it suffices."""

    def __call__(
        self,
        goal: RollBack | Withdraw,
        *,
        on_progress: Callable[[Reconciliation], None],
        observed: Observed | None = None,
        suffices: Callable[[Reconciliation], bool] | None = None,
    ) -> Reconciliation:
        """Raise what keeps it from that."""


class WayBack:
    """One rollback. `candidate` is the revision to leave, `weight_0_at` when no new request was seen to be led there.

    In Standard mode the candidate's pods go with the canary, so it is removed only when it is drained, or its grace is
    over. In Knative mode the good version comes back meanwhile. An InferenceService that is deleted takes its pods with
    it, and a preview has had no user: neither is drained.

    :param on_progress: is called with what was done, once for each reason.
    :param on_weight_0: is called with the revision, when no new requests were seen to reach it.
    :param before_removal: is called before the candidate is taken away, while its router still counts it.
    """

    def __init__(
        self,
        reach: Reach,
        drain: CandidateDrain,
        candidate_uri: str,
        *,
        on_progress: Callable[[Reconciliation], None],
        on_weight_0: Callable[[str, datetime], None] = lambda revision, at: None,
        before_removal: Callable[[str | None], None] = lambda revision: None,
    ) -> None:
        self._reach, self._drain = reach, drain
        self._candidate_uri = candidate_uri
        self._tell = on_progress
        self._tell_weight_0 = on_weight_0
        self._before_removal = before_removal
        self._reported = ""
        self._had_users: bool | None = None
        self.candidate: str | None = None
        self.weight_0_at: datetime | None = None

    def go(self, goal: RollBack | Withdraw, observed: Observed | None = None) -> Reconciliation:
        """Reach the goal; `drained` then waits for the rest."""
        self._look_at(observed)
        if isinstance(goal, Withdraw) or self._had_users is False:
            return self._reach(goal, on_progress=self._on_progress, observed=observed)
        first = self._reach(goal, on_progress=self._on_progress, observed=observed, suffices=self._is_off)
        if isinstance(first.action, Done):
            return first
        if first.observed is not None and dialect_named(first.observed.dialect).removes_candidate:
            self._drain.wait_until_removable()
            self._before_removal(self.candidate)
        return self._reach(goal, on_progress=self._on_progress)

    def drained(self) -> Drained | None:
        """Wait until nobody is on the candidate, or nobody can tell, and return which; None: nobody has looked."""
        return self._drain.end()

    def _is_off(self, last: Reconciliation) -> bool:
        self._look_at(last.observed)
        return is_off(last.observed, self.candidate or "")

    def _look_at(self, observed: Observed | None) -> None:
        if observed is None:
            return
        if self._had_users is None:
            self._had_users = not (observed.is_preview or observed.is_start)
        found = observed.candidate_revision(self._candidate_uri)
        if found:
            self.candidate = self.candidate or found

    def _on_progress(self, now: Reconciliation) -> None:
        self._look_at(now.observed)
        if self.weight_0_at is None and is_off(now.observed, self.candidate or ""):
            self.weight_0_at = datetime.now(UTC)
            if self.candidate is not None:
                self._tell_weight_0(self.candidate, self.weight_0_at)
                if self._had_users and now.observed is not None:
                    self._drain.begin(self.candidate, self.weight_0_at)
        if now.action.reason != self._reported:
            self._reported = now.action.reason
            self._tell(now)
