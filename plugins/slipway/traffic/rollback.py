"""The rollback of a release, as a task carries it out: users first, then the record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from include.model_release.record.kinds import RollbackPhase, RolledBack, StageFinished, StageStarted
from include.model_release.record.state import ReleaseState
from include.model_release.rollout.next_action import RollBack, Withdraw
from include.model_release.rollout.observation import Observed
from include.model_release.rollout.reconciler import Reconciliation
from slipway.release_context import ReleaseContext
from slipway.release_record.record import ReleaseRecord
from slipway.traffic.after_rollback import AfterRollback
from slipway.traffic.live_service import LiveService, tell
from slipway.traffic.rollback_notes import RollbackNotes, Why

log = logging.getLogger(__name__)


class Rollback:
    """Takes all traffic back, and tells the record once users are safe.

    :param open_record: makes the record of the version that is left; it may raise anything.
    :param why: reason and author of a rollback that the trigger has not begun already.
    :param permit: is asked before each patch, where a person has named the version to go back to: it gets users that it
        does not have. None: whoever takes users back asks nobody.
    """

    def __init__(
        self,
        parts: ReleaseContext,
        open_record: Callable[[], ReleaseRecord],
        why: Why,
        permit: Callable[[], None] | None = None,
    ) -> None:
        self._parts = parts
        self._live = LiveService(parts)
        self._open_record = open_record
        self._why = why
        self._permit = permit

    def take_back(self, goal: RollBack | Withdraw, observed: Observed | None = None) -> None:
        """Carry the rollback out.

        :param observed: what was observed of the InferenceService, if it was looked at.
        """
        stable_uri = goal.stable_uri if isinstance(goal, RollBack) else None
        candidate_uri = self._parts.address.candidate_uri
        notes = RollbackNotes(self._open_record, stable_uri, self._why)
        notes.add(StageStarted(stage="roll_back"))
        after = AfterRollback(self._parts.make_metrics)
        candidate: str | None = None
        weight_0_at: datetime | None = None

        def on_progress(now: Reconciliation) -> None:
            nonlocal candidate, weight_0_at
            tell(now)
            notes.add(RollbackPhase(phase=now.action.phase, detail=now.action.reason))
            if now.observed is not None:
                candidate = candidate or now.observed.revision_of(candidate_uri) or None
            if weight_0_at is None and _is_off(now.observed, candidate):
                weight_0_at = datetime.now(UTC)
                if candidate is not None:
                    after.begin(candidate, weight_0_at)
            if weight_0_at is not None:
                notes.write()

        try:
            reached = self._live.reach(goal, on_progress, observed=observed, permit=self._permit)
            self._live.conceal_candidate(reached.observed)
        except BaseException as error:
            reason = str(error) or type(error).__name__
            notes.add(StageFinished(stage="roll_back", outcome="failed", reason=reason))
            notes.write()
            raise
        requests, errors = self._final_counts(candidate)
        seen = after.end()
        notes.add(
            RolledBack(
                stable_storage_uri=stable_uri,
                candidate_requests=requests,
                candidate_errors=errors,
                weight_0_at=weight_0_at or datetime.now(UTC),
                requests_after_weight_0=None if seen is None else seen.requests,
                seconds_after_weight_0=None if seen is None else round(seen.seconds, 3),
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


def _is_off(observed: Observed | None, candidate: str | None) -> bool:
    """Whether it was seen that no user is on the candidate; what cannot be seen is not so."""
    if observed is None:
        return True
    is_seen = candidate is not None and observed.traffic_current and bool(observed.traffic)
    return is_seen and observed.share(candidate or "") == 0
