"""Ends the records of releases that no run continues, such as after `airflow db clean` has deleted the run's row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from slipway.airflow_run import is_under_way, model_lock
from slipway.airflow_stats import AIRFLOW_STATS
from slipway.failures import airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.keeper import keep_current
from slipway.read_model.writer import read_view
from slipway.release_context import make_outbox, make_store
from slipway.release_record.history import LIST_PAGES
from slipway.release_record.lock import LockOwner
from slipway.release_record.record import ReleaseRecord
from slipway.workflows import MODEL_INTAKE, MODEL_RELEASE, MODEL_ROLLBACK
from slipway_core.bucket_layout import MODEL_VIEWS_PREFIX, evidence_prefix
from slipway_core.errors import SlipwayError, UserError
from slipway_core.identifiers import validate_model_name
from slipway_core.monitoring.moments import measurements_of_end
from slipway_core.operations.notices.of_release import outcome_notice
from slipway_core.operations.rejection import rejection_due
from slipway_core.read_model.documents import VersionLine
from slipway_core.record.conclusion import concluded_without_run
from slipway_core.record.kinds import ReleaseFinished
from slipway_core.record.state import ReleaseState
from slipway_core.spec.release_file import load_model_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

# Which workflows write a release into a version's record.
_WORKFLOWS = (MODEL_RELEASE, MODEL_ROLLBACK)
_ANSWER_LIMIT_S = 10.0


@dataclass(frozen=True)
class _OpenRelease:
    """A release that its model's document calls unfinished; the record decides whether it is."""

    model: str
    version: int
    release_id: str


class EndLostReleasesOperator(BaseOperator):
    """Completes each record whose release has begun and not ended, and whose run Airflow no longer has under way.

    A run that new uploads have started does nothing here. Nothing is asked of the cluster: the guard takes users off a
    candidate whose lease nobody renews. The model's lock is given back, and people are notified.

    :param bucket: the bucket (templated).
    :param releases_dir: the folder with the release files, which name who is notified.
    :return: a sentence for each release that was ended.
    """

    template_fields: Sequence[str] = ("bucket",)

    def __init__(
        self, *, bucket: str, releases_dir: str, aws_conn_id: str = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.bucket = bucket
        self.releases_dir = releases_dir
        self.aws_conn_id = aws_conn_id

    def execute(self, context: Context) -> list[str]:
        """Look at every model; one that cannot be looked at holds up no other.

        :raises SlipwayError: the bucket cannot be listed.
        """
        if context.get("triggering_asset_events"):
            return []  # new uploads have started this run; the next scan by the schedule looks
        with airflow_failures():
            store = ModelStoreHook(self.bucket, self.aws_conn_id, answer_limit_s=_ANSWER_LIMIT_S)
            ended: list[str] = []
            for release in self._open_releases(store):
                try:
                    sentence = self._end(store, release, context)
                except SlipwayError as error:
                    self.log.warning(
                        "version %s of %s was left as it is: %s", release.version, release.model, error
                    )
                    continue
                if sentence:
                    self.log.warning("%s", sentence)
                    ended.append(sentence)
            return ended

    def _open_releases(self, store: ModelStoreHook) -> Iterator[_OpenRelease]:
        for entry in store.listing(MODEL_VIEWS_PREFIX, pages=LIST_PAGES).objects:
            try:
                model = validate_model_name(entry.key.removeprefix(MODEL_VIEWS_PREFIX).removesuffix(".json"))
                document = read_view(store, model).document
            except SlipwayError as error:
                self.log.warning("%s was not looked at: %s", entry.key, error)
                continue
            for line in () if document is None else document.versions:
                if _is_unfinished(line):
                    yield _OpenRelease(model, line.version, line.release_id)

    def _end(self, store: ModelStoreHook, release: _OpenRelease, context: Context) -> str:
        """Complete the release's record if it is lost; return a sentence about it, "" where there was nothing to do."""
        record = ReleaseRecord(store, release.model, release.version, release.release_id)
        state = record.state()
        if state.release_id != release.release_id or not _has_lost_its_run(state, context):
            return ""
        owner = LockOwner(context["run_id"], release.version, MODEL_INTAKE)
        lock = model_lock(store, release.model, context)
        holder = lock.acquire(owner)
        try:
            # A run about another version writes nothing into this record.
            if holder != owner and holder.version == release.version:
                return ""
            # Somebody may have ended it before the lock was ours.
            state = ReleaseRecord(store, release.model, release.version, release.release_id).state()
            if state.release_id != release.release_id or state.finished_at is not None:
                return ""
            ended = self._concluded(record, state)
        finally:
            lock.release(owner)
        keep_current(store.with_answer_limit, release.model, [release.version])
        return f"{release.model} version {release.version}: {ended.outcome}. {ended.reason or ''}".strip()

    def _concluded(self, record: ReleaseRecord, state: ReleaseState) -> ReleaseState:
        ended = concluded_without_run(state)
        due = rejection_due(ended, who=None)
        if due is not None:
            record.append(due)
        self._notify(record, ended)
        record.append(
            ReleaseFinished(outcome=ended.outcome, refused_by=ended.refused_by, reason=ended.reason)
        )
        now = record.state()
        AIRFLOW_STATS.tell(measurements_of_end(now))
        return now

    def _notify(self, record: ReleaseRecord, ended: ReleaseState) -> None:
        """Notify people; before the last event, so that a kill between the two notifies twice at most."""
        try:
            spec = load_model_spec(Path(self.releases_dir), ended.model)
        except UserError as error:
            self.log.warning("nobody is notified: %s", error)
            return
        evidence = make_store(self.bucket, spec, self.aws_conn_id).uri(
            evidence_prefix(ended.model, ended.version, ended.release_id)
        )
        notice = outcome_notice(
            ended, record.events(), at=datetime.now(UTC), evidence=evidence, dag_id=MODEL_RELEASE
        )
        make_outbox(self.bucket, spec, self.aws_conn_id).tell(notice)


def _is_unfinished(line: VersionLine) -> bool:
    return line.started_at is not None and line.finished_at is None and bool(line.release_id)


def _has_lost_its_run(state: ReleaseState, context: Context) -> bool:
    """Return whether no run continues the release; a state that Airflow does not tell is no proof that it is lost."""
    if state.started_at is None or state.finished_at is not None:
        return False
    return not any(is_under_way(context, dag_id, state.release_id) for dag_id in _WORKFLOWS)
