"""The way back of a release: armed before the first percent of traffic, taken unless the version was promoted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipway.extra_links import EVIDENCE_LINKS
from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.operators.lost_run import is_lost, release_of_run
from slipway.registry.verification import require_published_repository
from slipway.rollback_address import RollbackAddress
from slipway.traffic.live_service import LiveService
from slipway.traffic.rollback import Rollback
from slipway_core.errors import ForeignChangeError
from slipway_core.record.conclusion import CANCELLATION
from slipway_core.record.kinds import (
    CandidateVerified,
)
from slipway_core.record.state import ReleaseState
from slipway_core.reports.canary.files import CANARY_PAGE
from slipway_core.rollout.next_action import RollBack, Withdraw
from slipway_core.rollout.observation import RELEASE, ROLLED_BACK_URI, STABLE_URI, Observed

if TYPE_CHECKING:
    from airflow.sdk import Context


class ArmRollbackOperator(ReleaseOperator):
    """The setup whose teardown is the rollback: once it has run, the rollback runs whatever happens.

    It changes nothing for this release. What a release that died has left half done, it takes back first.
    """

    def run(self, context: Context) -> int | None:
        """Finish another's rollback if there is one to finish.

        :returns: the InferenceService's generation, at which the release is decided on; None: there is none.
        :raises ForeignChangeError: another version is live than the one that the gates compared with.
        :raises SigningRefusedError: the release file names a key, and what lies there is not signed with it.
        :raises VersionConflictError: it names none, and what lies there is not what was published.
        """
        LiveService(self.parts).take_back_canary()
        with recorded_stage(self.record, "canary", resumed=True, goes_on=True):
            return self._decided_generation()

    def _decided_generation(self) -> int | None:
        self._require_published()
        observed, stable = LiveService(self.parts).observe(), self.release_run.stable
        live = "" if observed is None else observed.storage_uri
        if observed is not None:
            for note in observed.gateway_notes:
                self.log.info("the gateway: %s", note)
        if stable is not None and live != stable.storage_uri:
            raise ForeignChangeError(
                f"the live version of {self.release_run.model!r} has changed since this release began",
                expected=stable.storage_uri,
                found=live or "no InferenceService",
                remedy="start the release again: its gates compared with the previous version",
            )
        return None if observed is None else observed.generation

    def _require_published(self) -> None:
        """Refuse what is not what was published, and signed where demanded: users' servers download it anew."""
        release_run = self.release_run
        key = self.parts.signing_key
        _, digest = self.parts.registry.require_with_digest(release_run.model, release_run.version)
        require_published_repository(self.store, release_run.model, release_run.version, key)
        self.record.append(CandidateVerified(manifest_sha256=digest))


class RestoreStableOperator(ReleaseOperator):
    """Takes all traffic back to the stable version unless the candidate was promoted. A teardown.

    Users go first, by what the InferenceService itself says: before its first patch this reads that object and nothing
    else. The record, the metrics and the rest of the release run come when users are safe. What is wrong with them
    fails the task, loudly, and undoes nothing. Where the release run itself is gone from Airflow's database, the run's
    parameters tell which version it is.
    """

    compares = False
    evidence_file = CANARY_PAGE
    operator_extra_links = EVIDENCE_LINKS

    def run(self, context: Context) -> None:
        """Take users off a canary under way; without one, only the record can tell whether there is anything to do."""
        if is_lost(self.release):
            self.release = release_of_run(context)
        address = self.parts.address
        rollback = Rollback(self.parts, self.parts.record_of_address, _why)
        observed = LiveService(self.parts).observe()
        if observed is not None and _is_own(observed, address):
            stable_uri = observed.annotation(STABLE_URI) or address.stable_uri
            rollback.take_back(RollBack(stable_uri, address.candidate_uri), observed)
            return
        state = self.parts.record_of_address().state()
        if state.outcome in ("promoted", "rolled_back"):
            self.log.info("the version was %s; there is nothing to roll back", state.outcome)
            rollback.tidy_up(state)
        elif state.intended_weight is None or state.rollback_phase == "done":
            self.log.info("this version had no users; there is nothing to roll back")
        elif was_live := address.stable_uri or state.stable_storage_uri:
            rollback.take_back(RollBack(was_live, address.candidate_uri))
        else:
            rollback.take_back(Withdraw(address.candidate_uri))


def _is_own(observed: Observed, address: RollbackAddress) -> bool:
    """Return whether a canary of this release, or its rollback, is under way; what others began since is theirs."""
    if observed.canary_percent is None:
        return False
    is_ours = address.candidate_uri in (observed.storage_uri, observed.annotation(ROLLED_BACK_URI))
    return is_ours and observed.annotation(RELEASE) in ("", address.release_id)


def _why(state: ReleaseState | None) -> tuple[str, str]:
    """Return reason and author of a rollback that the trigger has not begun already; None: no record can be read."""
    if state is None:
        return "the version was not promoted, and its record cannot be read", "task failure"
    failed = next((stage for stage in state.stages if stage.outcome in ("refused", "failed")), None)
    if failed is not None:
        by = "judge" if failed.outcome == "refused" else "task failure"
        return failed.reason or f"the stage {failed.name} {failed.outcome}", by
    return "the run was stopped before the version was promoted", CANCELLATION
