"""How a release ends: the conclusion that is always written, and the lock that is given back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slipway.airflow_run import model_lock, stop_reason, triggered_by
from slipway.airflow_stats import AIRFLOW_STATS
from slipway.extra_links import EVIDENCE_LINKS
from slipway.failures import PlainFailure
from slipway.operators.base import ReleaseOperator
from slipway.operators.lost_run import is_lost, release_of_run
from slipway.read_model.keeper import keep_current
from slipway.release_record.lock import LockOwner
from slipway.run_note import tell_release
from slipway_core.errors import SlipwayError
from slipway_core.monitoring.moments import measurements_of_end
from slipway_core.operations.notices.of_release import outcome_notice
from slipway_core.operations.rejection import rejection_due
from slipway_core.operations.run_notes import outcome_text
from slipway_core.record.conclusion import concluded
from slipway_core.record.events import Outcome, RecordError
from slipway_core.record.kinds import ReleaseFinished
from slipway_core.record.state import ReleaseState
from slipway_core.reports.canary.files import CANARY_PAGE, canary_files

if TYPE_CHECKING:
    from airflow.sdk import Context


class ConcludeReleaseOperator(ReleaseOperator):
    """Writes how the release ended, from its own record, and gives the lock back. A teardown.

    It fails, with the reason, unless it ended as `wanted`; without that a run that was stopped would be a
    successful one, since what it skipped and what its teardowns did counts for nothing.

    :param wanted: the outcome that makes a green run.
    """

    compares = False
    evidence_file = CANARY_PAGE
    operator_extra_links = EVIDENCE_LINKS

    def __init__(self, *, wanted: Outcome = "promoted", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wanted = wanted

    def run(self, context: Context) -> None:
        """Conclude once; a task that is run again finds it done.

        :raises RecordError: the record cannot be right. The model's lock was given back all the same.
        """
        if self.wanted == "promoted" and is_lost(self.release):
            self.release = release_of_run(context)
        release_run = self.release_run
        owner = LockOwner(release_run.release_id, release_run.version, context["dag"].dag_id)
        lock = model_lock(self.store, release_run.model, context)
        try:
            state = self._concluded(context)
        except RecordError:
            lock.release(owner)  # nothing is mended by keeping other versions out
            raise
        self._write_canary_evidence()
        lock.release(owner)
        keep_current(self.store.with_answer_limit, release_run.model, [release_run.version])
        summary, why = (
            f"{release_run.model} version {release_run.version}: {state.outcome}.",
            state.reason or "",
        )
        tell_release(context, release_run.model, release_run.version, outcome_text(state))
        if state.outcome != self.wanted:
            raise PlainFailure(summary, why=why, page=self.page())
        self.log.info("%s", f"{summary} {why}".strip())

    def _concluded(self, context: Context) -> ReleaseState:
        """Return what became of the release, after its last event was written.

        The version is rejected under the name of who started the run, where that person had it taken back.
        """
        record = self.record
        try:
            state = record.state()
        except RecordError as error:
            record.append(ReleaseFinished(outcome="failed", reason=str(error)))
            raise
        if not isinstance(record.events()[-1].data, ReleaseFinished):
            ended = concluded(state, stop_reason=stop_reason(context))
            self._reject(ended, triggered_by(context))
            self._tell(ended, context["dag"].dag_id)
            record.append(
                ReleaseFinished(outcome=ended.outcome, refused_by=ended.refused_by, reason=ended.reason)
            )
            state = record.state()
            AIRFLOW_STATS.tell(measurements_of_end(state))
        return state

    def _reject(self, state: ReleaseState, who: str | None) -> None:
        """Write that the version is rejected, where its release says so; before the end, so that no kill comes between.

        A rollback by hand whose target a gate refused says nothing against the version that stays live.
        """
        if state.release_id != self.release_run.release_id:
            return
        if self.wanted == "rolled_back" and state.outcome != "rolled_back":
            return
        due = rejection_due(state, who=who)
        if due is not None:
            self.record.append(due)

    def _tell(self, ended: ReleaseState, dag_id: str) -> None:
        """Tell people how the release ended; before the last event, so that a kill between tells it twice at most."""
        if ended.release_id != self.release_run.release_id:
            return
        evidence = self.release_run.uri(self.release_run.evidence_prefix)
        now, events = datetime.now(UTC), self.record.events()
        self.parts.outbox.tell(outcome_notice(ended, events, at=now, evidence=evidence, dag_id=dag_id))

    def _write_canary_evidence(self) -> None:
        """Write the canary's page, its data and the windows to judge again. It holds no release up."""
        try:
            release_run = self.release_run
            files = canary_files(release_run.release_id, release_run.spec.rollout, self.record.events())
        except SlipwayError as error:
            self.log.warning("the canary's evidence cannot be made from the record: %s", error)
            return
        for name, (content, content_type) in files.items():
            key = f"{self.release_run.evidence_prefix}{name}"
            self.store.write(key, content.encode(), content_type=content_type)
        if files:
            self.log.info("evidence: %s", self.page())
