"""The rollback of a release, as a task carries it out: users first, then the record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from include.model_release.record.kinds import RollbackPhase, RolledBack, StageFinished, StageStarted
from include.model_release.record.state import ReleaseState
from include.model_release.rollout.drain import Drained, told
from include.model_release.rollout.next_action import Done, RollBack, Withdraw
from include.model_release.rollout.observation import STABLE_REVISION, Observed
from include.model_release.rollout.reconciler import Reconciliation
from slipway.release_context import ReleaseContext
from slipway.release_record.record import ReleaseRecord
from slipway.traffic.after_rollback import AfterRollback
from slipway.traffic.drain import CandidateDrain, is_off
from slipway.traffic.live_service import LiveService, tell
from slipway.traffic.rollback_notes import RollbackNotes, Why

log = logging.getLogger(__name__)


class Rollback:
    """Takes all traffic back, and tells the record once users are safe.

    :param open_record: makes the record of the version that is left; it may raise anything.
    :param why: reason and author of a rollback that the trigger has not begun already.
    """

    def __init__(self, parts: ReleaseContext, open_record: Callable[[], ReleaseRecord], why: Why) -> None:
        self._parts = parts
        self._live = LiveService(parts)
        self._open_record = open_record
        self._why = why

    def take_back(self, goal: RollBack | Withdraw, observed: Observed | None = None) -> None:
        """Carry the rollback out.

        :param observed: what was observed of the InferenceService, if it was looked at.
        """
        stable_uri = goal.stable_uri if isinstance(goal, RollBack) else None
        notes = RollbackNotes(self._open_record, stable_uri, self._why)
        notes.add(StageStarted(stage="roll_back"))
        way = _WayBack(self._parts, notes)
        try:
            reached = way.go(self._live, goal, observed)
            self._live.conceal_candidate(reached.observed)
        except BaseException as error:
            notes.write()
            if isinstance(error, Exception):  # a task that is told to end does not wait
                way.tell_drain()
            reason = str(error) or type(error).__name__
            notes.add(StageFinished(stage="roll_back", outcome="failed", reason=reason))
            notes.write()
            raise
        # Before its pods are ended: afterwards the router may know it no longer.
        requests, errors = self._final_counts(way.candidate)
        drained = way.tell_drain()
        seen = way.after.end()
        notes.add(
            RolledBack(
                stable_storage_uri=stable_uri,
                candidate_requests=requests,
                candidate_errors=errors,
                weight_0_at=way.weight_0_at or datetime.now(UTC),
                requests_after_weight_0=None if seen is None else seen.requests,
                seconds_after_weight_0=None if seen is None else round(seen.seconds, 3),
                drained=None if drained is None else drained.how,
                drain_seconds=None if drained is None else round(drained.seconds, 3),
                open_requests=None if drained is None else drained.active,
            )
        )
        notes.add(StageFinished(stage="roll_back", outcome="passed"))
        notes.write()
        try:
            self._live.leave_lease()
        finally:
            notes.finish()

    def tidy_up(self, state: ReleaseState) -> None:
        """Do what a task that died right after writing how the release ended has not come to do."""
        if any(stage.name == "roll_back" and stage.outcome == "running" for stage in state.stages):
            self._open_record().append(StageFinished(stage="roll_back", outcome="passed"))
        self._live.leave_lease()

    def _final_counts(self, candidate: str | None) -> tuple[int | None, int | None]:
        """Return what users met in all; unknown where the source is away, which must not hold up a rollback."""
        if candidate is None:
            return None, None
        try:
            counters = self._parts.make_metrics().read([candidate])[candidate].totals()
        except Exception as error:  # a connection that is missing or wrong included
            log.warning("the candidate's final counts are not known: %s", error)
            return None, None
        return counters.requests, counters.errors


class _WayBack:
    """The way of one rollback: no new request to the candidate, then nobody on it, beside the good version's return."""

    def __init__(self, parts: ReleaseContext, notes: RollbackNotes) -> None:
        self._address = parts.address
        self._notes = notes
        self.after = AfterRollback(parts.make_metrics)
        self._drain = drain_of(parts)
        self._told = ""
        self._had_users: bool | None = None
        self.candidate: str | None = None
        self.weight_0_at: datetime | None = None

    def go(
        self, live: LiveService, goal: RollBack | Withdraw, observed: Observed | None = None
    ) -> Reconciliation:
        """Reach the goal. In Standard mode the next action would remove the candidate: first it is drained."""
        self._look_at(observed)
        if isinstance(goal, Withdraw) or self._had_users is False:
            return live.reach(goal, self._on_progress, observed=observed)
        first = live.reach(goal, self._on_progress, observed=observed, suffices=self._is_off)
        if isinstance(first.action, Done):
            return first
        if first.observed is not None and first.observed.dialect == "Standard":
            self._drain.wait_until_removable()
        return live.reach(goal, self._on_progress)

    def tell_drain(self) -> Drained | None:
        """Wait until nobody is on the candidate, or nobody can tell, and note which; None: nobody has looked."""
        drained = self._drain.end()
        if drained is not None:
            self._notes.add(RollbackPhase(phase="drain", detail=told(drained)))
        return drained

    def _is_off(self, last: Reconciliation) -> bool:
        self._look_at(last.observed)
        return is_off(last.observed, self.candidate or "")

    def _look_at(self, observed: Observed | None) -> None:
        if observed is None:
            return
        if self._had_users is None:
            self._had_users = not (observed.is_preview or observed.is_start)
        found = observed.revision_of(self._address.candidate_uri)
        # Before Knative has made the candidate's revision the newest one is the stable one.
        is_stable = observed.dialect == "Knative" and found == observed.annotation(STABLE_REVISION)
        if found and not is_stable:
            self.candidate = self.candidate or found

    def _on_progress(self, now: Reconciliation) -> None:
        if now.action.reason != self._told:
            self._told = now.action.reason
            tell(now)
            self._notes.add(RollbackPhase(phase=now.action.phase, detail=now.action.reason))
        self._look_at(now.observed)
        if self.weight_0_at is None and is_off(now.observed, self.candidate or ""):
            self.weight_0_at = datetime.now(UTC)
            if self.candidate is not None:
                self.after.begin(self.candidate, self.weight_0_at)
                if self._had_users:
                    self._drain.begin(self.candidate, self.weight_0_at)
        if self.weight_0_at is not None:
            self._notes.write()


def drain_of(parts: ReleaseContext) -> CandidateDrain:
    """Return what watches the candidate of a release from weight 0 on."""
    return CandidateDrain(
        lambda: parts.make_service().sharing_client_of(parts.service),
        parts.make_metrics,
        candidate_uri=parts.address.candidate_uri,
        drain_s=parts.address.drain_s,
    )
