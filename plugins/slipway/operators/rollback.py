"""Back to an earlier version by hand: users first, then the bookkeeping."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from include.model_release.errors import InputMissingError, SlipwayError, StoreUnavailableError
from include.model_release.isvc_observation import STABLE_URI, Observed
from include.model_release.names import parse_version
from include.model_release.repository import parse_storage_uri
from include.model_release.rollout import RollBack
from include.model_release.spec import ReleaseSpec, load_model_spec
from slipway.failures import airflow_failures
from slipway.hooks.kserve import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.hooks.lock import LockOwner
from slipway.hooks.record import ReleaseRecord
from slipway.hooks.registry import ModelRegistry
from slipway.hooks.signing import load_signing_key
from slipway.hooks.store import ModelStoreHook
from slipway.hooks.verification import require_published_repository
from slipway.operators.release import model_lock
from slipway.operators.restore import RestoreStableOperator
from slipway.rollout_driver import drive, look
from slipway.ticket import ReleaseTicket, StableVersion

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_ID = "model_rollback"
BY = "a person"
_LOCK_POLL = timedelta(seconds=5)
_LOCK_PATIENCE = 12


class NameRollbackOperator(BaseOperator):
    """Ends a canary that is under way, then says which version shall be live again.

    What is asked for comes from the run's Params: ``model``, ``version`` (None: the one before) and ``reason``.
    Users are taken off a canary before anything is asked of the object store. A release that is still preparing is
    waited for a minute; it would find another version live than it began with, and refuse to go on.

    :param releases_dir: the folder with the release files.
    :param bucket: the bucket (templated).
    :return: a `ReleaseTicket` of the version to leave, with the version to go back to as the stable one.
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
        """Ends the canary, waits for the model's lock, names the way back and opens the record."""
        params = context["params"]
        with airflow_failures():
            spec = load_model_spec(Path(self.releases_dir), str(params["model"]))
            live, was_canary = self._end_canary(spec, str(params["reason"]))
            if was_canary and params.get("version") is None:
                raise AirflowSkipException(f"the canary was ended; {live.storage_uri} has all traffic")
            store = ModelStoreHook(self.bucket, self.aws_conn_id, encryption=spec.publish.encryption)
            ticket = self._ticket(context, spec, store, live)
            try:
                owner = LockOwner(ticket.release_id, ticket.version, DAG_ID)
                holder = model_lock(store, spec.model, context).acquire(owner)
                if holder != owner and waited < _LOCK_PATIENCE:
                    self.log.info("waiting for release %s to end", holder.release_id)
                    self.defer(
                        trigger=TimeDeltaTrigger(_LOCK_POLL),
                        method_name="execute",
                        kwargs={"waited": waited + 1},
                    )
                record = ReleaseRecord(store, ticket.model, ticket.version, ticket.release_id)
                _open(record, ticket, str(params["reason"]))
            except StoreUnavailableError as error:
                self.log.warning("the record cannot be opened yet, users go first: %s", error)
            return ticket.model_dump(mode="json")

    def _end_canary(self, spec: ReleaseSpec, reason: str) -> tuple[Observed, bool]:
        """Takes all users off a canary; the release that runs it finds its lease ended, and concludes its own record.

        :return: what is live then, and whether there was a canary.
        """
        rollout = spec.rollout
        service = KServeHook(rollout.inference_service, rollout.namespace, self.kubernetes_conn_id)
        observed = look(service)
        if observed is None:
            raise InputMissingError(
                f"there is no InferenceService {rollout.namespace}/{rollout.inference_service}",
                expected="one with a version to go back from",
                found="none",
                remedy="release a version first",
            )
        if observed.canary_percent is None:
            return observed, False
        leases = LeaseHook(rollout.inference_service, rollout.namespace, self.kubernetes_conn_id)
        while (lease := leases.get()) is not None and not lease.is_ended:
            leases.end(lease, by=BY, reason=reason)
        turn = drive(service, RollBack(observed.stable_uri), timeout_s=rollout.ready_timeout_s)
        self.log.info("the canary of %s was ended", observed.storage_uri)
        return turn.observed or observed, True

    def _ticket(
        self, context: Context, spec: ReleaseSpec, store: ModelStoreHook, live: Observed
    ) -> ReleaseTicket:
        target = self._target(spec, store, live, context["params"].get("version"))
        return ReleaseTicket(
            release_id=context["run_id"],
            model=spec.model,
            version=parse_storage_uri(live.storage_uri)[1],
            bucket=self.bucket,
            spec=spec,
            stable=StableVersion(version=parse_storage_uri(target)[1], storage_uri=target),
        )

    def _target(self, spec: ReleaseSpec, store: ModelStoreHook, live: Observed, version: int | None) -> str:
        """The storageUri to go back to: that of the version asked for, else what the InferenceService notes.

        What it notes has served until now, and the way back to it needs nothing that may be away.
        """
        if version is None:
            before = live.annotation(STABLE_URI)
            if before not in ("", live.storage_uri):
                return before
            raise InputMissingError(
                f"{live.name} does not note which version was live before {live.storage_uri}",
                expected=f"another version in the annotation {STABLE_URI}",
                found=before or "none",
                remedy="name the version to go back to",
            )
        target = ModelRegistry(store).storage_uri(spec.model, parse_version(version))
        if target != live.annotation(STABLE_URI):
            self._require_published(spec, store, parse_version(version))
        return target

    def _require_published(self, spec: ReleaseSpec, store: ModelStoreHook, version: int) -> None:
        """Refuses an earlier version that is not what was published, and signed where that is demanded.

        Users wait for it, so no file is read: where the store keeps no digest its size is compared. With S3 away the
        rollback goes on: it is a person's word, and nobody more is led away from what is live until the version is up,
        for which the inference servers need S3 themselves.

        :raises SigningRefusedError: it is not signed with the release file's key, or not what was signed.
        :raises VersionConflictError: no signature is demanded, and it is not what was published.
        :raises InputMissingError: it was never published.
        """
        signing = spec.publish.signing
        key = None if signing is None else load_signing_key(signing)
        try:
            unread = require_published_repository(store, spec.model, version, key, read=False)
        except StoreUnavailableError as error:
            self.log.warning("going on with version %s although it could not be checked: %s", version, error)
            return
        for one in unread:
            self.log.warning(
                "only the size of %s was compared: the store keeps no digest of it", store.uri(one)
            )


class RollBackVersionOperator(RestoreStableOperator):
    """Brings all users to the version that was named. The rollback of a canary, for a version that was promoted.

    It drives the InferenceService first where the record cannot be read; the record is then written by the retry.
    """

    def run(self, context: Context) -> None:
        """Rolls back; a task that is run again finds done what is done."""
        ticket = self.ticket
        try:
            _open(self.record, ticket, str(context["params"]["reason"]))
            state = self.record.state()
        except SlipwayError:
            self.reach(RollBack(_target_uri(ticket), ticket.storage_uri))
            raise
        if state.outcome == "rolled_back":
            self.tidy_up(state)
        else:
            self.take_back(state)


def _open(record: ReleaseRecord, ticket: ReleaseTicket, reason: str) -> None:
    """Opens the record of the version that is left, once, with the reason for leaving it."""
    if record.started() and record.state().release_id == ticket.release_id:
        return
    record.append("release_started", stable_storage_uri=_target_uri(ticket))
    record.append("rollback_started", reason=reason, by=BY, stable_storage_uri=_target_uri(ticket))


def _target_uri(ticket: ReleaseTicket) -> str:
    return "" if ticket.stable is None else ticket.stable.storage_uri
