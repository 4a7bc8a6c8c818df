"""Back to an earlier version by hand: a canary is ended first, then the version to go back to proves itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from slipway.airflow_run import model_lock, triggered_by
from slipway.failures import PlainFailure, airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.base import ReleaseOperator
from slipway.operators.revalidation.live_look import LiveLook
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import signing_key_of
from slipway.registry.verification import require_published_repository
from slipway.release_context import make_store
from slipway.release_record.lock import LockOwner
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway.rollback_address import NamedService
from slipway.run_note import tell_release
from slipway.traffic.canary_end import EndedCanary, end_named_canary
from slipway.traffic.live_service import LiveService
from slipway.traffic.rollback import Rollback
from slipway.workflows import ADMIT_TASK, MODEL_REVALIDATION, MODEL_ROLLBACK
from slipway_core.admitted import require_consistent_stable
from slipway_core.bucket_layout import parse_storage_uri, repository_paths
from slipway_core.errors import (
    InputMissingError,
    SignedWithoutIdentityError,
    StoreUnavailableError,
)
from slipway_core.identifiers import parse_version
from slipway_core.permission.admission import require_older, restore_refusal
from slipway_core.permission.raise_permission import Raise, raise_refusal
from slipway_core.record.kinds import CandidateVerified, ReleaseStarted
from slipway_core.record.requirements import Requirements
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.next_action import RollBack
from slipway_core.rollout.observation import STABLE_URI, Observed
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.run_overrides import ROLLBACK_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context

BY = "a person"
# Under which key the first task leaves what staging shall try; None: nothing.
TRIED = "tried"
_LOCK_POLL = timedelta(seconds=5)
_LOCK_PATIENCE = 12


class NameRollbackOperator(BaseOperator):
    """Ends a canary that is under way, then says which version shall be live again, and that it may be.

    What is asked for comes from the run's Params: ``model``, ``version`` (None: the one before), ``leave`` (None: what
    is live), ``reason``, ``newer`` and ``emergency``. Users are taken off a canary before anything is asked of the
    object store. A release that is still preparing is waited for a minute; it would find another version live than it
    began with, and refuse to go on.

    The version must be one that its record shows promoted, older than what is live unless ``newer`` says otherwise,
    and its bytes what was published. In an emergency the version before, which the InferenceService itself notes, is
    asked nothing: it has served until now, and the way back to it needs nothing that may be away.

    A canary is ended from the namespace and the name of its InferenceService: ``namespace`` and ``inference_service``
    where the run says them, else by the release file, be that wrong elsewhere. What is lacking besides (the file, the
    lease) fails the task when users are off the candidate.

    :param releases_dir: the folder with the release files.
    :param bucket: the bucket (templated).
    :returns: a `ReleaseRun` of the version to leave, with the version to go back to as the stable one.
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

    def execute(self, context: Context, event: Any = None, waited: int = 0) -> dict[str, Any]:
        """End the canary and name the way back; then, but in an emergency, wait for the lock and ask the record."""
        params = context["params"]
        with airflow_failures():
            require_known(params, ROLLBACK_PARAMETERS)
            named = NamedService.find(
                Path(self.releases_dir),
                str(params["model"]),
                namespace=str(params.get("namespace") or ""),
                inference_service=str(params.get("inference_service") or ""),
            )
            if triggered_by(context) is None:
                self._require_quiet(context, named.required_spec)
            ended = end_named_canary(named, self.kubernetes_conn_id, by=BY, reason=str(params["reason"]))
            live = ended.live
            if ended.was_canary and params.get("version") is None:
                _conclude_canary(ended)
            _require_left(live, params.get("leave"))
            spec = named.spec_in(emergency=bool(params.get("emergency")) and params.get("version") is None)
            release_run = self._release_run(context, spec, live)
            tried = None
            if not is_noted_emergency(release_run, live, params):
                self._open(context, spec, release_run, waited)
                tried = None if params.get("emergency") else _tried(release_run)
            context["ti"].xcom_push(key=TRIED, value=tried)
            self._tell(context, release_run)
            return release_run.model_dump(mode="json")

    def _tell(self, context: Context, release_run: ReleaseRun) -> None:
        """Write into the run's note what is done; the conclusion replaces it."""
        to = "" if release_run.stable is None else f" to version {release_run.stable.version}"
        who = triggered_by(context)
        started = f"started by {who}" if who else "started automatically"
        note = f"rollback{to} {started}: {context['params']['reason']}"
        tell_release(context, release_run.model, release_run.version, note)

    def _require_quiet(self, context: Context, spec: ReleaseSpec) -> None:
        """A rollback that no person has asked for ends no release that is under way.

        :raises AirflowSkipException: there is one.
        """
        store = make_store(self.bucket, spec, self.aws_conn_id)
        live = LiveLook(store, spec, context, kubernetes_conn_id=self.kubernetes_conn_id).live()
        if live.standing == "in_flight":
            raise AirflowSkipException(f"no person asked for this rollback, and {live.why}")

    def _release_run(self, context: Context, spec: ReleaseSpec, live: Observed) -> ReleaseRun:
        target = self._target(spec, live, context["params"].get("version"))
        return ReleaseRun(
            release_id=context["run_id"],
            model=spec.model,
            version=parse_storage_uri(live.storage_uri)[1],
            bucket=self.bucket,
            spec=spec,
            stable=StableVersion(version=parse_storage_uri(target)[1], storage_uri=target),
        )

    def _target(self, spec: ReleaseSpec, live: Observed, version: int | None) -> str:
        """Return the storageUri to go back to: that of the version asked for, else what the InferenceService notes."""
        if version is not None:
            return repository_paths(spec.model, parse_version(version)).storage_uri(self.bucket)
        before = live.annotation(STABLE_URI)
        if before not in ("", live.storage_uri):
            return before
        raise InputMissingError(
            f"{live.name} does not say which version was live before {live.storage_uri}",
            expected=f"a different version in the annotation {STABLE_URI}",
            found=before or "none",
            remedy="name the version to go back to",
        )

    def _open(self, context: Context, spec: ReleaseSpec, release_run: ReleaseRun, waited: int) -> None:
        """Ask whether users may be led to the version, then open the record of the one to leave, under the lock.

        :raises StoreUnavailableError: nobody can be asked.
        """
        store = make_store(self.bucket, spec, self.aws_conn_id)
        try:
            digest = self._require_worthy(store, spec, release_run, context["params"])
            self._lock(context, store, release_run, waited)
            record = ReleaseRecord(store, release_run.model, release_run.version, release_run.release_id)
            open_record(record, release_run, context)
            record.append(CandidateVerified(manifest_sha256=digest))
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                "it cannot be checked whether users may be sent to that version",
                expected="its record, its manifest and its files in the object store",
                found=error.what,
                remedy="wait for the object store, or roll back to the previous version with `emergency`, which "
                "needs only the cluster",
            ) from error

    def _require_worthy(
        self, store: ModelStoreHook, spec: ReleaseSpec, release_run: ReleaseRun, params: Any
    ) -> str:
        """Refuse a version to which nobody may be led; return the digest of its manifest.

        :raises InputMissingError: it was never published.
        :raises RaiseRefusedError: its record does not show it promoted.
        :raises UserError: it is newer than what is live, and that was not asked for.
        :raises SigningRefusedError: it is not signed with the release file's key, or not what was signed.
        :raises VersionConflictError: no signature is demanded, and it is not what was published.
        """
        assert release_run.stable is not None  # noqa: S101  a rollback has a target
        version = release_run.stable.version
        _, digest = ModelRegistry(store).require_with_digest(release_run.model, version)
        if not params.get("newer"):
            require_older(release_run.model, version, live=release_run.version)
        refusal = restore_refusal(_state_of(store, release_run, version), manifest_sha256=digest)
        if refusal is not None:
            raise refusal
        key = signing_key_of(spec)
        try:
            # Users wait for it, so no file is read: where the store keeps no digest its size is compared.
            unread = require_published_repository(store, release_run.model, version, key, read=False)
        except SignedWithoutIdentityError as error:
            # The files are the published ones and the key has signed them; in an emergency that is enough.
            if not params.get("emergency"):
                raise
            self.log.warning("continuing in an emergency: %s", error)
            unread = ()
        for one in unread:
            self.log.warning(
                "only the size of %s was compared: the store keeps no digest of it", store.uri(one)
            )
        return digest

    def _lock(self, context: Context, store: ModelStoreHook, release_run: ReleaseRun, waited: int) -> None:
        owner = LockOwner(release_run.release_id, release_run.version, MODEL_ROLLBACK)
        holder = model_lock(store, release_run.model, context).acquire(owner)
        if holder == owner:
            return
        if waited >= _LOCK_PATIENCE:
            self.log.warning("continuing although release %s has not ended", holder.release_id)
            return
        self.log.info("waiting for release %s to end", holder.release_id)
        self.defer(trigger=TimeDeltaTrigger(_LOCK_POLL), method_name="execute", kwargs={"waited": waited + 1})


class TryRollbackOperator(BaseOperator):
    """Says as what staging tries the version to go back to; in an emergency skips the task that would begin it.

    :param first_task_id: that task.
    """

    def __init__(self, *, first_task_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first_task_id = first_task_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the `ReleaseRun` under which staging tries the version."""
        tried = context["ti"].xcom_pull(task_ids=ADMIT_TASK, key=TRIED)
        if tried is None:
            self.log.warning("an emergency: the version is not tested on staging first")
            raise DownstreamTasksSkipped(tasks=[self.first_task_id])
        return dict(tried)


class RollBackVersionOperator(ReleaseOperator):
    """Brings all users to the version that was named. The rollback of a canary, for a version that was promoted.

    It asks the record whether that version may have them, but for an emergency's way back to the version before.
    """

    compares = False  # an emergency needs the cluster alone; what asks the record compares with it

    def run(self, context: Context) -> None:
        """Roll back; a task that is run again finds done what is done.

        :raises HandedOtherwiseError: it was handed another rollback than was admitted.

        :raises RaiseRefusedError: the record does not show what the version needs.
        """
        release_run = self.release_run
        assert release_run.stable is not None  # noqa: S101  a rollback has a target
        stable = release_run.stable
        require_consistent_stable(release_run.model, stable.version, stable.storage_uri)

        def open_it() -> ReleaseRecord:
            """Open the record now where the object store was away before."""
            record = self.parts.record_of_address()
            open_record(record, release_run, context)
            return record

        by = BY if triggered_by(context) else MODEL_REVALIDATION
        observed, version = LiveService(self.parts).observe(), release_run.stable.version
        asks = observed is None or not is_noted_emergency(release_run, observed, context["params"])

        def permit() -> None:
            self._require_permitted(release_run, self.record.state(), version)

        why = str(context["params"]["reason"]), by
        rollback = Rollback(self.parts, open_it, lambda _: why, permit if asks else None)
        if asks:
            state = self.record.state()
            release_run.require_admitted(state)
            if (state.release_id, state.outcome) == (release_run.release_id, "rolled_back"):
                rollback.tidy_up(state)
                return
            self._require_permitted(release_run, state, version)
        rollback.take_back(RollBack(release_run.stable.storage_uri, release_run.storage_uri), observed)

    def _require_permitted(self, release_run: ReleaseRun, state: ReleaseState, version: int) -> None:
        _, digest = self.parts.registry.require_with_digest(release_run.model, version)
        asked = Raise(release_run.release_id, 100, digest, version)
        refusal = raise_refusal(asked, state) if not state.rolling_back else None
        refusal = refusal or restore_refusal(
            _state_of(self.store, release_run, version), manifest_sha256=digest
        )
        if refusal is not None:
            raise refusal


def _conclude_canary(ended: EndedCanary) -> NoReturn:
    """End the run: the users are off the candidate, and nothing else was asked for.

    :raises AirflowSkipException: all is done.
    :raises PlainFailure: users are safe, and something is lacking that a person must see to.
    """
    summary = f"the canary was ended; {ended.live.storage_uri} has all traffic"
    if ended.lacking:
        raise PlainFailure(f"{summary}.", why=f"Still to be done: {'; '.join(ended.lacking)}")
    raise AirflowSkipException(summary)


def _require_left(live: Observed, version: int | None) -> None:
    """Return where the version that shall be left is live; a run may begin long after it was asked for.

    :param version: None: whatever is live.
    :raises AirflowSkipException: another one is live by now.
    """
    if version is None:
        return
    found = parse_storage_uri(live.storage_uri)[1]
    if found != parse_version(version):
        raise AirflowSkipException(
            f"version {version} was to be rolled back, but version {found} is live now"
        )


def is_noted_emergency(release_run: ReleaseRun, live: Observed, params: Any) -> bool:
    """Return whether an emergency leads back to the version that the InferenceService notes as the one before."""
    noted = live.annotation(STABLE_URI)
    target = "" if release_run.stable is None else release_run.stable.storage_uri
    # While it is on its way the object names the target itself.
    return bool(params.get("emergency")) and target != "" and target in (noted, live.storage_uri)


def open_record(record: ReleaseRecord, release_run: ReleaseRun, context: Context) -> None:
    """Open the record of the version that is left, once, with what the version to go back to must prove."""
    if record.started() and record.state().release_id == release_run.release_id:
        return
    params = context["params"]
    required = Requirements(
        gates=() if params.get("emergency") else ("validate",),
        approvals=("promotion",) if params.get("newer") else (),
        by_other=True,
    )
    record.append(
        ReleaseStarted(
            stable_storage_uri="" if release_run.stable is None else release_run.stable.storage_uri,
            required=required,
            triggered_by=triggered_by(context),
            reason=str(params["reason"]),
            admitted=release_run.admitted,
        )
    )


def _tried(release_run: ReleaseRun) -> dict[str, Any]:
    """Return the release run under which staging tries the version to go back to; it writes in the other's record."""
    assert release_run.stable is not None  # noqa: S101  a rollback has a target
    tried = release_run.model_copy(
        update={"version": release_run.stable.version, "stable": None, "recorded_under": release_run.version}
    )
    return tried.model_dump(mode="json")


def _state_of(store: ModelStoreHook, release_run: ReleaseRun, version: int) -> ReleaseState:
    """Return what the record says of a version. Raises RecordError where it has none."""
    return ReleaseRecord(store, release_run.model, version, release_run.release_id).state()
