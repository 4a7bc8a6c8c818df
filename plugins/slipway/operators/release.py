"""How a release begins and ends: admission under the model's lock, and the conclusion that is always written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator

from slipway.airflow_run import is_by_hand, model_lock, stop_reason, triggered_by
from slipway.airflow_stats import AIRFLOW_STATS
from slipway.extra_links import EVIDENCE_LINKS
from slipway.failures import PlainFailure, airflow_failures
from slipway.golden_intake import require_askable_golden_set
from slipway.hooks.s3_guarantees import require_guarantees
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.base import ReleaseOperator
from slipway.operators.intake.release_files import require_release_file
from slipway.operators.lost_run import is_lost, release_of_run
from slipway.page_addresses import release_page
from slipway.read_model.keeper import keep_current
from slipway.registry.deletion import require_not_deleted
from slipway.release_context import make_outbox, make_service, make_store
from slipway.release_record.history import ModelHistory, is_taken_back
from slipway.release_record.holds import HoldReader
from slipway.release_record.lock import LockOwner
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway.run_note import tell_release
from slipway.traffic.deployed import require_protocol_deployed
from slipway.traffic.reconciler import observe_service
from slipway.traffic.streams.preflight import require_source_read
from slipway.training_configs import require_stateless_source, training_configs
from slipway.triggers.hold import HoldChangedTrigger
from slipway.triggers.lock import LockFreedTrigger
from slipway_core.admission import (
    require_newer,
    require_not_rejected,
    require_person_after_rollback,
    require_unreleased,
)
from slipway_core.bucket_layout import parse_storage_uri, repository_paths
from slipway_core.errors import ReleaseInProgressError, ReleaseNotNowError, SlipwayError, UserError
from slipway_core.identifiers import parse_version
from slipway_core.intake import IncomingVersion, parse_ready, require_files
from slipway_core.monitoring.moments import measurements_of_end
from slipway_core.operations.notices.of_release import held_notice, outcome_notice, started_notice
from slipway_core.operations.rejection import rejection_due
from slipway_core.operations.run_notes import outcome_text, started_text
from slipway_core.record.conclusion import concluded
from slipway_core.record.events import Outcome, RecordError
from slipway_core.record.kinds import ReleaseFinished, ReleaseStarted
from slipway_core.record.requirements import requirements_of
from slipway_core.record.state import ReleaseState
from slipway_core.reports.canary.files import CANARY_PAGE, canary_files
from slipway_core.rollout.lease_terms import require_lease_outlasts_take_over
from slipway_core.spec.release_file import ReleaseSpec, apply_overrides, load_model_spec
from slipway_core.spec.run_overrides import RELEASE_PARAMETERS, looser_than_file, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context

RETENTION_DAG_ID = "repository_gc"


class AdmitReleaseOperator(BaseOperator):
    """Checks what was asked for, takes the model's lock and opens the record.

    What is asked for comes from the run's Params: ``model``, ``version``, and optionally ``steps``,
    ``window_s``, ``wait_for_approval``, ``force`` and ``reason``.

    :param releases_dir: the folder with the release files.
    :param bucket: the bucket (templated).
    :returns: the `ReleaseRun` as a mapping, which the other tasks work by.
    """

    template_fields: Sequence[str] = ("bucket",)

    def __init__(
        self,
        *,
        releases_dir: str,
        bucket: str,
        aws_conn_id: str = "aws_default",
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id

    def execute(self, context: Context, event: Any = None, told: str = "") -> dict[str, Any]:
        """Admit the release, or wait in the triggerer while another of the same model is under way.

        :param told: what holds the release, where people have been told so.
        """
        params = context["params"]
        try:
            return self._admitted(context, told)
        except PlainFailure as failure:
            tell_release(context, params.get("model"), params.get("version"), f"not started: {failure}")
            raise

    def _admitted(self, context: Context, told: str) -> dict[str, Any]:
        params = context["params"]
        with airflow_failures(lambda: release_page(params.get("model"), params.get("version"))):
            require_known(params, RELEASE_PARAMETERS)
            spec = self._spec(context)
            require_lease_outlasts_take_over(
                spec.rollout.lease_s,
                conf.getfloat("triggerer", "triggerer_health_check_threshold"),
                conf.getfloat("triggerer", "job_heartbeat_sec"),
            )
            version = parse_version(params["version"])
            store = make_store(self.bucket, spec, self.aws_conn_id)
            require_guarantees(store)
            landed_at = self._require_landed(store, spec, version)
            self._wait_while_held(store, spec, version, context, told)
            owner = LockOwner(context["run_id"], version, context["dag"].dag_id)
            lock = model_lock(store, spec.model, context)
            holder = lock.acquire(owner)
            if holder != owner:
                return self._wait_or_refuse(spec, version, holder, context)
            try:
                admitted = self._admit(store, spec, version, context, landed_at)
            except BaseException:
                lock.release(owner)
                raise
            keep_current(store.with_answer_limit, spec.model, [version])
            return admitted

    def _spec(self, context: Context) -> ReleaseSpec:
        """Return the release file with what the form changed in it; only whom the file names may ask for less."""
        params = context["params"]
        if not is_by_hand(context):
            require_release_file(self.releases_dir, params["model"])
        spec = load_model_spec(Path(self.releases_dir), str(params["model"]), insists=True)
        rollout: dict[str, Any] = {name: params[name] for name in ("steps", "window_s") if params.get(name)}
        if params.get("wait_for_approval"):
            rollout["approval"] = {"before_canary": True}
        if not rollout:
            return spec
        asked = apply_overrides(spec, {"rollout": rollout}, "the run's parameters")
        looser = looser_than_file(spec.rollout, asked.rollout)
        if looser and triggered_by(context) not in spec.rollout.may_relax:
            raise UserError(
                f"the run asks for less care than the release file of {spec.model!r}",
                expected="steps and window that are no less strict than the file's",
                found="; ".join(looser),
                remedy="leave them out, change the release file, or have somebody start the run whom "
                "`rollout.may_relax` names",
            )
        return asked

    @staticmethod
    def _require_landed(store: ModelStoreHook, spec: ReleaseSpec, version: int) -> datetime | None:
        """The version was never deleted; `ready.json` is there and about it, and what it names is there too.

        :returns: when `ready.json` was written.
        """
        paths = repository_paths(spec.model, version)
        require_not_deleted(store, paths)
        body = store.require(
            paths.ready,
            remedy="let training write it as the last object, or check model and version",
        )
        ready = parse_ready(body, IncomingVersion(spec.model, version))
        written = {entry.key: entry.written_at for entry in store.entries(paths.incoming)}
        present = [key.removeprefix(paths.incoming) for key in written]
        require_files(ready, present, spec.required_files())
        require_stateless_source(store, spec, version)
        require_askable_golden_set(store, spec, version)
        return written.get(paths.ready)

    def _wait_while_held(
        self, store: ModelStoreHook, spec: ReleaseSpec, version: int, context: Context, told: str
    ) -> None:
        """Nothing begins during a freeze or outside of the release windows: the release file says what then.

        :raises ReleaseNotNowError: it is not waited for.
        """
        record = ReleaseRecord(store, spec.model, version, "")
        overrides = record.state().overrides if record.started() else ()
        windows = spec.rollout.release_windows
        hold = HoldReader(store, spec.model, windows).hold(overrides, triggered_by(context))
        if hold is None:
            return
        if hold.told != told:
            now, release_id = datetime.now(UTC), context["run_id"]
            notice = held_notice(spec.model, version, hold, at=now, release_id=release_id)
            make_outbox(self.bucket, spec, self.aws_conn_id).tell(notice)
        what = f"the release of version {version} of {spec.model!r}"
        error = hold.error(what, refuse=spec.rollout.on_hold == "refuse")
        if isinstance(error, ReleaseNotNowError):
            raise error
        self.log.info("%s", error)
        tell_release(context, spec.model, version, f"waits. {hold.told}")
        changed = HoldChangedTrigger.of(self.bucket, spec.model, version, windows, self.aws_conn_id)
        self.defer(trigger=changed, method_name="execute", kwargs={"told": hold.told})

    def _wait_or_refuse(
        self, spec: ReleaseSpec, version: int, holder: LockOwner, context: Context
    ) -> dict[str, Any]:
        """Another run holds the model's lock: the release file says what then. Retention holds it for moments only."""
        if spec.rollout.on_concurrent_release == "queue" or holder.dag_id == RETENTION_DAG_ID:
            waits = f"waits for release {holder.release_id} (version {holder.version})"
            self.log.info(waits)
            tell_release(context, spec.model, version, waits)
            freed = LockFreedTrigger(
                bucket=self.bucket, model=spec.model, holder=holder.release_id, aws_conn_id=self.aws_conn_id
            )
            self.defer(trigger=freed, method_name="execute")
        raise ReleaseInProgressError(
            f"another release of {spec.model!r} is under way",
            expected="one release of a model at a time",
            found=f"{holder.release_id} (version {holder.version})",
            remedy="wait until it has ended, or set `rollout.on_concurrent_release: queue`",
        )

    def _admit(
        self,
        store: ModelStoreHook,
        spec: ReleaseSpec,
        version: int,
        context: Context,
        landed_at: datetime | None,
    ) -> dict[str, Any]:
        """Open the record; a task that is run again finds its own release open and goes on."""
        params, release_id = context["params"], context["run_id"]
        record = ReleaseRecord(store, spec.model, version, release_id)
        require_not_rejected(state := record.state() if record.started() else None)
        if state is not None:
            record.require_own(getattr(context.get("dag_run"), "run_after", None))
        stable = self._stable(spec)
        if stable is not None:
            service = make_service(spec.rollout, self.kubernetes_conn_id)
            require_source_read(spec, lambda: training_configs(store, spec, version), service)
        if not params.get("force"):
            require_unreleased(spec.model, version, state)
            require_newer(spec.model, version, live=None if stable is None else stable.version)
        if state is None or (state.release_id, state.outcome) != (release_id, "open"):
            self._require_person_after_rollback(store, spec, version, triggered_by(context))
        release_run = ReleaseRun(
            release_id=release_id,
            model=spec.model,
            version=version,
            bucket=self.bucket,
            spec=spec,
            stable=stable,
            force=bool(params.get("force")),
        )
        # A run that has ended and was cleared begins anew; a task that is run again goes on.
        if state is None or state.release_id != release_id or state.outcome != "open":
            started = ReleaseStarted(
                stable_storage_uri=None if release_run.stable is None else release_run.stable.storage_uri,
                required=requirements_of(spec, first=release_run.stable is None),
                triggered_by=triggered_by(context),
                reason=params.get("reason"),
                landed_at=landed_at,
                admitted=release_run.admitted,
            )
            told = started_notice(release_id, spec, version, started, at=datetime.now(UTC))
            make_outbox(self.bucket, spec, self.aws_conn_id).tell(told)
            record.append(started)
            tell_release(context, spec.model, version, started_text(started.triggered_by, started.reason))
            # Whole, with every default: what a default was on that day is part of the explanation.
            whole = {**release_run.model_dump(mode="json"), "spec": release_run.spec.model_dump(mode="json")}
            asked = {key: value for key, value in dict(params).items() if value is not None}
            store.write_json(f"{release_run.evidence_prefix}release.json", {"params": asked, **whole})
        return release_run.model_dump(mode="json")

    def _require_person_after_rollback(
        self, store: ModelStoreHook, spec: ReleaseSpec, version: int, who: str | None
    ) -> None:
        """A release that nobody started may have waited for the lock of the one that was rolled back meanwhile."""
        if who or spec.rollout.after_rollback == "go_on":
            return
        history = ModelHistory(spec.model, store.listing, self.log.warning)
        newest = history.newest(but=version).version
        attempts = None if newest is None else history.attempts(newest)
        if newest is not None and attempts is not None and is_taken_back(store, attempts):
            require_person_after_rollback(spec.model, version, taken_back=newest, who=who)

    def _stable(self, spec: ReleaseSpec) -> StableVersion | None:
        """Return what is live now, from the cluster itself."""
        observed = observe_service(make_service(spec.rollout, self.kubernetes_conn_id))
        if observed is None or not observed.latest_rolledout:
            return None
        require_protocol_deployed(spec, observed)
        uri = observed.stable_uri
        return StableVersion(version=parse_storage_uri(uri)[1], storage_uri=uri)


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
        told, why = f"{release_run.model} version {release_run.version}: {state.outcome}.", state.reason or ""
        tell_release(context, release_run.model, release_run.version, outcome_text(state))
        if state.outcome != self.wanted:
            raise PlainFailure(told, why=why, page=self.page())
        self.log.info("%s", f"{told} {why}".strip())

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
            self.log.warning("the canary's evidence cannot be made of the record: %s", error)
            return
        for name, (content, content_type) in files.items():
            key = f"{self.release_run.evidence_prefix}{name}"
            self.store.write(key, content.encode(), content_type=content_type)
        if files:
            self.log.info("evidence: %s", self.page())
