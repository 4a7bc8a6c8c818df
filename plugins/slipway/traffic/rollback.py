"""The rollback of a release, as a task carries it out: users first, then the record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from slipway.release_context import ReleaseContext
from slipway.release_record.record import ReleaseRecord
from slipway.traffic.after_rollback import AfterRollback
from slipway.traffic.live_service import LiveService, drain_of, tell
from slipway.traffic.rollback_notes import RollbackNotes, Why
from slipway.traffic.way_back import WayBack
from slipway_core.record.kinds import RollbackPhase, RolledBack, StageFinished, StageStarted
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.next_action import Done, RollBack, Withdraw
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.pods.drain import Drained, drain_summary
from slipway_core.rollout.reconciler import Reconciliation

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
        notes = RollbackNotes(self._open_record, stable_uri, self._why)
        notes.add(StageStarted(stage="roll_back"))
        after = AfterRollback(self._parts.make_metrics)
        counts: list[tuple[int | None, int | None]] = []
        address = self._parts.address

        def on_progress(now: Reconciliation) -> None:
            tell(now)
            # Until nobody is on the candidate it is not done: whoever runs the task again then goes on.
            if not isinstance(now.action, Done):
                notes.add(RollbackPhase(phase=now.action.phase, detail=now.action.reason))
            if way.weight_0_at is not None:
                notes.write()

        way = WayBack(
            partial(self._live.reach, permit=self._permit),
            drain_of(self._parts, address.candidate_uri),
            address.candidate_uri,
            on_progress=on_progress,
            on_weight_0=after.begin,
            before_removal=lambda candidate: counts.append(self._final_counts(candidate)),
        )
        try:
            reached = way.go(goal, observed)
            self._live.conceal_candidate(reached.observed)
        except BaseException as error:
            after.stop()
            notes.write()
            if isinstance(error, Exception):  # a task that is told to end does not wait
                _note_drained(notes, way)
            reason = str(error) or type(error).__name__
            notes.add(StageFinished(stage="roll_back", outcome="failed", reason=reason))
            notes.write()
            raise
        # Before its pods are ended: afterwards the router may know it no longer.
        requests, errors = counts[0] if counts else self._final_counts(way.candidate)
        drained = _note_drained(notes, way)
        notes.add(RollbackPhase(phase=reached.action.phase, detail=reached.action.reason))
        seen = after.end()
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
            log.warning("the candidate's final counts are unknown: %s", error)
            return None, None
        return counters.requests, counters.errors


def _note_drained(notes: RollbackNotes, way: WayBack) -> Drained | None:
    """Wait until nobody is on the candidate, or nobody can tell, and note which."""
    drained = way.drained()
    if drained is not None:
        notes.add(RollbackPhase(phase="drain", detail=drain_summary(drained)))
    return drained
