"""How a release begins: admission under the model's lock, once what was asked for is there and nothing holds it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator

from slipway.airflow_run import model_lock, triggered_by
from slipway.failures import PlainFailure, airflow_failures
from slipway.hooks.s3_guarantees import require_guarantees
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission.facts import AdmissionReader, requested_spec, require_landed
from slipway.page_addresses import release_page
from slipway.read_model.keeper import keep_current
from slipway.release_context import make_outbox, make_store
from slipway.release_record.holds import HoldReader
from slipway.release_record.lock import LockOwner
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway.run_note import tell_release
from slipway.triggers.hold import HoldChangedTrigger
from slipway.triggers.lock import LockFreedTrigger
from slipway.workflows import MODEL_RELEASE, REPOSITORY_GC
from slipway_core.errors import ReleaseInProgressError, ReleaseNotNowError
from slipway_core.identifiers import parse_version
from slipway_core.operations.notices.of_release import held_notice, started_notice
from slipway_core.operations.run_notes import started_text
from slipway_core.permission.admission import decide_admission
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.record.requirements import requirements_of
from slipway_core.rollout.lease_terms import require_lease_outlasts_take_over
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.run_overrides import RELEASE_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context


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

    def execute(self, context: Context, event: Any = None, noted: str = "") -> dict[str, Any]:
        """Admit the release, or wait in the triggerer while another of the same model is under way.

        :param noted: what holds the release, if people have been notified of it.
        """
        params = context["params"]
        try:
            return self._admitted(context, noted)
        except PlainFailure as failure:
            tell_release(context, params.get("model"), params.get("version"), f"not started: {failure}")
            raise

    def _admitted(self, context: Context, noted: str) -> dict[str, Any]:
        params = context["params"]
        with airflow_failures(lambda: release_page(params.get("model"), params.get("version"))):
            require_known(params, RELEASE_PARAMETERS)
            spec = requested_spec(self.releases_dir, context)
            require_lease_outlasts_take_over(
                spec.rollout.lease_s,
                conf.getfloat("triggerer", "triggerer_health_check_threshold"),
                conf.getfloat("triggerer", "job_heartbeat_sec"),
            )
            version = parse_version(params["version"])
            store = make_store(self.bucket, spec, self.aws_conn_id)
            require_guarantees(store)
            landed_at = require_landed(store, spec, version)
            self._wait_while_held(store, spec, version, context, noted)
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

    def _wait_while_held(
        self, store: ModelStoreHook, spec: ReleaseSpec, version: int, context: Context, noted: str
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
        if hold.reason != noted:
            now, run_id, dag_id = datetime.now(UTC), context["run_id"], MODEL_RELEASE
            notice = held_notice(spec.model, version, hold, at=now, release_id=run_id, dag_id=dag_id)
            make_outbox(self.bucket, spec, self.aws_conn_id).tell(notice)
        what = f"the release of version {version} of {spec.model!r}"
        error = hold.error(what, refuse=spec.rollout.on_hold == "refuse")
        if isinstance(error, ReleaseNotNowError):
            raise error
        self.log.info("%s", error)
        tell_release(context, spec.model, version, f"waits. {hold.reason}")
        changed = HoldChangedTrigger.of(self.bucket, spec.model, version, windows, self.aws_conn_id)
        self.defer(trigger=changed, method_name="execute", kwargs={"noted": hold.reason})

    def _wait_or_refuse(
        self, spec: ReleaseSpec, version: int, holder: LockOwner, context: Context
    ) -> dict[str, Any]:
        """Another run holds the model's lock: the release file says what then. Retention holds it for moments only."""
        if spec.rollout.on_concurrent_release == "queue" or holder.dag_id == REPOSITORY_GC:
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
        """Decide, and open the record; a task that is run again finds its own release open and goes on."""
        params, release_id = context["params"], context["run_id"]
        reader = AdmissionReader(store, spec, version, self.kubernetes_conn_id, self.log)
        facts, stable = reader.facts(context)
        admission = decide_admission(facts)
        release_run = ReleaseRun(
            release_id=release_id,
            model=spec.model,
            version=version,
            bucket=self.bucket,
            spec=spec,
            stable=stable,
            force=facts.force,
        )
        if admission == "begin":
            record = ReleaseRecord(store, spec.model, version, release_id)
            started = ReleaseStarted(
                stable_storage_uri=None if release_run.stable is None else release_run.stable.storage_uri,
                required=requirements_of(spec, first=release_run.stable is None),
                triggered_by=triggered_by(context),
                reason=params.get("reason"),
                landed_at=landed_at,
                admitted=release_run.admitted,
            )
            now = datetime.now(UTC)
            notice = started_notice(release_id, spec, version, started, at=now, dag_id=MODEL_RELEASE)
            make_outbox(self.bucket, spec, self.aws_conn_id).tell(notice)
            record.append(started)
            tell_release(context, spec.model, version, started_text(started.triggered_by, started.reason))
            # Whole, with every default: what a default was on that day is part of the explanation.
            whole = {**release_run.model_dump(mode="json"), "spec": release_run.spec.model_dump(mode="json")}
            asked = {key: value for key, value in dict(params).items() if value is not None}
            store.write_json(f"{release_run.evidence_prefix}release.json", {"params": asked, **whole})
        return release_run.model_dump(mode="json")
