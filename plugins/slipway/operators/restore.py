"""The way back of a release: armed before the first percent of traffic, taken unless the version was promoted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from include.model_release.errors import ForeignChangeError
from include.model_release.record.kinds import (
    CandidateVerified,
    RollbackPhase,
    RolledBack,
    StageFinished,
    StageStarted,
)
from include.model_release.record.state import ReleaseState
from include.model_release.rollout.next_action import RollBack, Withdraw
from include.model_release.rollout.observation import RELEASE, ROLLED_BACK_URI, STABLE_URI, Observed
from include.model_release.rollout.reconciler import Reconciliation
from slipway.hooks.s3_store import ModelStoreHook
from slipway.metrics.source import metrics_source
from slipway.operators.base import recorded_stage
from slipway.operators.traffic import TrafficOperator
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import load_signing_key
from slipway.registry.verification import require_published_repository
from slipway.release_record.record import ReleaseRecord
from slipway.traffic.reconciler import observe_service
from slipway.traffic.rollback_notes import RollbackNotes

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
        observed, stable = observe_service(self.service), self.release_run.stable
        live = "" if observed is None else observed.storage_uri
        if stable is not None and live != stable.storage_uri:
            raise ForeignChangeError(
                f"another version of {self.release_run.model!r} is live than when this release began",
                expected=stable.storage_uri,
                found=live or "no InferenceService",
                remedy="the gates compared with the old one: start the release again",
            )
        return None if observed is None else observed.generation

    def _require_published(self) -> None:
        """Refuses what is not what was published, and signed where demanded: users' servers download it anew."""
        release_run = self.release_run
        signing = release_run.spec.publish.signing
        key = None if signing is None else load_signing_key(signing)
        _, digest = ModelRegistry(self.store).require_with_digest(release_run.model, release_run.version)
        require_published_repository(self.store, release_run.model, release_run.version, key)
        self.record.append(CandidateVerified(manifest_sha256=digest))


class RestoreStableOperator(TrafficOperator):
    """Takes all traffic back to the stable version unless the candidate was promoted. A teardown.

    Users go first, by what the InferenceService itself says: before its first patch this reads that object and nothing
    else. The record, the metrics and the rest of the release run come when users are safe. What is wrong with them
    fails the task, loudly, and undoes nothing.
    """

    def run(self, context: Context) -> None:
        """Takes users off a canary under way; without one, only the record can tell whether there is anything to do."""
        observed = observe_service(self.service)
        if observed is not None and self._is_own(observed):
            stable_uri = observed.annotation(STABLE_URI) or self.address.stable_uri
            self.take_back(RollBack(stable_uri, self.address.candidate_uri), observed)
            return
        state = self.open_record().state()
        if state.outcome in ("promoted", "rolled_back"):
            self.log.info("the version was %s; there is nothing to take back", state.outcome)
            self.tidy_up(state)
        elif state.intended_weight is None or state.rollback_phase == "done":
            self.log.info("no user was led to this version; there is nothing to take back")
        else:
            stable_uri, candidate_uri = self.address.stable_uri, self.address.candidate_uri
            self.take_back(RollBack(stable_uri, candidate_uri) if stable_uri else Withdraw(candidate_uri))

    def _is_own(self, observed: Observed) -> bool:
        """Whether a canary of this release, or its rollback, is under way; what others have begun since is theirs."""
        if observed.canary_percent is None:
            return False
        candidate_uri = self.address.candidate_uri
        is_ours = candidate_uri in (observed.storage_uri, observed.annotation(ROLLED_BACK_URI))
        return is_ours and observed.annotation(RELEASE) in ("", self.address.release_id)

    def open_record(self) -> ReleaseRecord:
        """The record; where the rest of the release run cannot be read, encrypted as the connection says."""
        try:
            return self.record
        except Exception as error:  # whatever is wrong with it is not needed here
            self.log.warning("going on without the release file: %s", error)
        address = self.address
        store = ModelStoreHook(address.bucket, self.aws_conn_id)
        return ReleaseRecord(store, address.model, address.version, address.release_id)

    def tidy_up(self, state: ReleaseState) -> None:
        """Does what a task that died right after writing how the release ended has not come to do."""
        if any(stage.name == "roll_back" and stage.outcome == "running" for stage in state.stages):
            self.open_record().append(StageFinished(stage="roll_back", outcome="passed"))
        self.leave_lease()

    def take_back(self, goal: RollBack | Withdraw, observed: Observed | None = None) -> None:
        """Drives the rollback; the record is told once users are safe.

        :param observed: what was seen of the InferenceService, if it was looked at.
        """
        stable_uri = goal.stable_uri if isinstance(goal, RollBack) else None
        candidate_uri = self.address.candidate_uri
        notes = RollbackNotes(self.open_record, stable_uri, self.why)
        notes.add(StageStarted(stage="roll_back"))
        candidate: str | None = None
        weight_0_at: datetime | None = None

        def on_progress(now: Reconciliation) -> None:
            nonlocal candidate, weight_0_at
            self.tell(now)
            notes.add(RollbackPhase(phase=now.action.phase, detail=now.action.reason))
            if now.observed is not None:
                candidate = candidate or now.observed.revision_of(candidate_uri) or None
            if weight_0_at is None and _is_off(now.observed, candidate):
                weight_0_at = datetime.now(UTC)
            if weight_0_at is not None:
                notes.write()

        try:
            self.conceal_candidate(self.reach(goal, on_progress, observed=observed).observed)
        except BaseException as error:
            reason = str(error) or type(error).__name__
            notes.add(StageFinished(stage="roll_back", outcome="failed", reason=reason))
            notes.write()
            raise
        requests, errors = self._final_counts(candidate)
        notes.add(
            RolledBack(
                stable_storage_uri=stable_uri,
                candidate_requests=requests,
                candidate_errors=errors,
                weight_0_at=weight_0_at or datetime.now(UTC),
            )
        )
        notes.add(StageFinished(stage="roll_back", outcome="passed"))
        notes.write()
        self.leave_lease()
        notes.finish()

    def why(self, state: ReleaseState | None) -> tuple[str, str]:
        """Reason and author of a rollback that the trigger has not begun already; None: the record cannot be read."""
        if state is None:
            return "the version was not promoted, and the record cannot be read", "task failure"
        failed = next((stage for stage in state.stages if stage.outcome in ("refused", "failed")), None)
        if failed is not None:
            by = "judge" if failed.outcome == "refused" else "task failure"
            return failed.reason or f"the stage {failed.name} {failed.outcome}", by
        return "the run was stopped before the version was promoted", "cancellation"

    def leave_lease(self) -> None:
        """Gives the lease of this release's canary back."""
        lease = self.lease.get()
        if lease is not None and lease.release_id == self.address.release_id:
            self.lease.release(lease.release_id)

    def _final_counts(self, candidate: str | None) -> tuple[int | None, int | None]:
        """What users met in all; unknown where the source is away, which must not hold up a rollback."""
        if candidate is None:
            return None, None
        try:
            source = metrics_source(self.release_run.spec, self.metrics_conn_id)
            counters = source.read([candidate])[candidate].totals()
        except Exception as error:  # a connection that is missing or wrong included
            self.log.warning("the candidate's final counts are not known: %s", error)
            return None, None
        return counters.requests, counters.errors


def _is_off(observed: Observed | None, candidate: str | None) -> bool:
    """Whether it was seen that no user is on the candidate; what cannot be seen is not so."""
    if observed is None:
        return True
    is_seen = candidate is not None and observed.traffic_current and bool(observed.traffic)
    return is_seen and observed.share(candidate or "") == 0
