"""The way back of a release: armed before the first percent of traffic, taken unless the version was promoted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from include.model_release.errors import ForeignChangeError, MetricsUnavailableError, SlipwayError
from include.model_release.isvc_observation import Observed
from include.model_release.record import ReleaseState
from include.model_release.rollout import RollBack, Withdraw
from slipway.hooks.metrics import metrics_source
from slipway.hooks.signing import load_signing_key
from slipway.hooks.verification import require_published_repository
from slipway.operators.base import recorded_stage
from slipway.operators.traffic import TrafficOperator
from slipway.rollout_driver import Turn, look
from slipway.wheel import Wheel

if TYPE_CHECKING:
    from airflow.sdk import Context


class ArmRollbackOperator(TrafficOperator):
    """The setup whose teardown is the rollback: once it has run, the rollback runs whatever happens.

    It changes nothing for this release. What a release that died has left half done, it takes back first.
    """

    def run(self, context: Context) -> int | None:
        """Finishes another's rollback if there is one to finish.

        :return: the InferenceService's generation, at which the release is decided on; None: there is none.
        :raises ForeignChangeError: another version is live than the one that the gates compared with.
        :raises SigningRefusedError: the release file names a key, and what lies there is not signed with it.
        :raises VersionConflictError: it names none, and what lies there is not what was published.
        """
        self.take_back_canary()
        with recorded_stage(self.record, "canary", resumed=True, goes_on=True):
            return self._decided_generation()

    def _decided_generation(self) -> int | None:
        self._require_published()
        observed, stable = look(self.service), self.ticket.stable
        live = "" if observed is None else observed.storage_uri
        if stable is not None and live != stable.storage_uri:
            raise ForeignChangeError(
                f"another version of {self.ticket.model!r} is live than when this release began",
                expected=stable.storage_uri,
                found=live or "no InferenceService",
                remedy="the gates compared with the old one: start the release again",
            )
        return None if observed is None else observed.generation

    def _require_published(self) -> None:
        """Refuses what is not what was published, and signed where demanded: users' servers download it anew."""
        ticket = self.ticket
        signing = ticket.spec.publish.signing
        key = None if signing is None else load_signing_key(signing)
        require_published_repository(self.store, ticket.model, ticket.version, key)


class RestoreStableOperator(TrafficOperator):
    """Takes all traffic back to the stable version unless the candidate was promoted. A teardown.

    It needs neither the metrics source nor staging. Where the record cannot be read, cannot be right or cannot be
    written, it still brings the users back, by what the InferenceService itself says, and only then fails.
    """

    def run(self, context: Context) -> None:
        """Rolls back; whatever keeps it from telling the record must not keep the users where they are."""
        try:
            self._restore()
        except SlipwayError:
            self.take_back_canary(self.ticket.storage_uri)
            raise

    def _restore(self) -> None:
        """Rolls back if there is anything to take back."""
        state = self.record.state()
        if state.outcome in ("promoted", "rolled_back"):
            self.log.info("the version was %s; there is nothing to take back", state.outcome)
            self.tidy_up(state)
        elif state.intended_weight is None:
            self.log.info("no user was led to this version; there is nothing to take back")
        else:
            with recorded_stage(self.record, "roll_back"):
                self.take_back(state)

    def tidy_up(self, state: ReleaseState) -> None:
        """Does what a task that died right after writing how the release ended has not come to do."""
        if any(stage.name == "roll_back" and stage.outcome == "running" for stage in state.stages):
            self.record.append("stage_finished", stage="roll_back", outcome="passed")
        Wheel(self.lease, self.ticket).leave()

    def take_back(self, state: ReleaseState) -> None:
        """Drives the rollback, writing down each phase as it is entered."""
        ticket, record = self.ticket, self.record
        stable = None if ticket.stable is None else ticket.stable.storage_uri
        if not state.rolling_back:
            reason, by = _why(state)
            record.append("rollback_started", reason=reason, by=by, stable_storage_uri=stable)
        observed = look(self.service)
        candidate = None if observed is None else observed.revision_of(ticket.storage_uri) or None
        goal = Withdraw(ticket.storage_uri) if stable is None else RollBack(stable, ticket.storage_uri)
        weight_0_at = state.weight_0_at

        def on_turn(turn: Turn) -> None:
            nonlocal weight_0_at
            self.tell(turn)
            if weight_0_at is None and _is_off(turn.observed, candidate):
                weight_0_at = datetime.now(UTC)
            record.append("rollback_phase", phase=turn.action.phase, detail=turn.action.reason)

        self.conceal_candidate(self.reach(goal, on_turn).observed)
        requests, errors = self._final_counts(candidate)
        record.append(
            "rolled_back",
            stable_storage_uri=stable,
            candidate_requests=requests,
            candidate_errors=errors,
            weight_0_at=weight_0_at or datetime.now(UTC),
        )
        Wheel(self.lease, ticket).leave()

    def _final_counts(self, candidate: str | None) -> tuple[int | None, int | None]:
        """What users met in all; unknown where the source is away, which must not hold up a rollback."""
        if candidate is None:
            return None, None
        try:
            source = metrics_source(self.ticket.spec, self.metrics_conn_id)
            counters = source.read([candidate])[candidate].totals()
        except MetricsUnavailableError as error:
            self.log.warning("the candidate's final counts are not known: %s", error)
            return None, None
        return counters.requests, counters.errors


def _is_off(observed: Observed | None, candidate: str | None) -> bool:
    return observed is None or candidate is None or observed.share(candidate) == 0


def _why(state: ReleaseState) -> tuple[str, str]:
    """Reason and author of a rollback that the trigger has not begun already."""
    failed = next((stage for stage in state.stages if stage.outcome in ("refused", "failed")), None)
    if failed is not None:
        by = "judge" if failed.outcome == "refused" else "task failure"
        return failed.reason or f"the stage {failed.name} {failed.outcome}", by
    return "the run was stopped before the version was promoted", "cancellation"
