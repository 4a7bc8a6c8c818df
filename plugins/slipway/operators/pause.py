"""A canary that stays where it is until a person has looked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator

from slipway.airflow_run import triggered_by
from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.noted_failures import noted_failures
from slipway.release_context import make_lease, make_service, make_store
from slipway.release_record.holds import HoldReader
from slipway.release_record.record import ReleaseRecord
from slipway.run_note import tell_act
from slipway.traffic.reconciler import observe_service
from slipway_core.bucket_layout import parse_storage_uri
from slipway_core.errors import (
    CanaryEndedError,
    InputMissingError,
    SlipwayError,
    TimedOutError,
    TransientError,
)
from slipway_core.operations.audit import AuditEntry
from slipway_core.operations.layout import audit_key
from slipway_core.rollout.lease import TEXT_LIMIT, Lease
from slipway_core.rollout.pause import PauseOutcome, pause_outcome
from slipway_core.spec.release_file import ReleaseSpec, load_model_spec
from slipway_core.spec.run_overrides import PAUSE_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context

POLL_S = 0.5
# A holder renews every ten seconds and more often; between two of a release's tasks nobody does.
LONGEST_WAIT_S = 120.0
_SPARE_S = 5.0
_ANSWER_LIMIT_S = 10.0


class PauseCanaryOperator(BaseOperator):
    """Keeps a canary at its weight, or lets it go on; the judge watches all the while and may still fail it.

    It says "paused" when no raise and no promotion can follow any more. Until then it waits for the canary's next
    renewal of its lease; where the canary is over by then, it fails and says how.

    A pause needs the cluster alone. A resume raises nothing by itself: the release asks for each raise as ever. It
    says what will hold that, a freeze, a closed window or a rejection, where the bucket can be read.

    Who did it is kept for the audit afterwards, where the bucket can be written.

    What is asked for comes from the run's Params: ``model``, ``action`` (``pause`` or ``resume``) and ``reason``.

    :param releases_dir: the folder with the release files.
    :param bucket: the bucket (templated).
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

    def execute(self, context: Context) -> str:
        """Note it on the canary's lease; a pause is confirmed when it holds.

        :returns: what is true now: "paused at 20 %", or that the canary goes on.
        :raises AirflowFailException: the pause came too late; the reason says what happened instead.
        :raises TimedOutError: nobody has said in time that it holds. The note stays.
        """
        params = context["params"]
        with noted_failures(context):
            require_known(params, PAUSE_PARAMETERS)
            spec = load_model_spec(Path(self.releases_dir), str(params["model"]))
            rollout = spec.rollout
            lease = make_lease(rollout, self.kubernetes_conn_id)
            if params["action"] != "pause":
                resumed = lease.pause(None).release_id
                summary = f"the canary of {resumed} continues{self._held(spec)}"
                self._keep("resumed", spec, context)
            else:
                who = triggered_by(context)
                reason = f"{who}: {params['reason']}" if who else str(params["reason"])
                noted = lease.pause(reason[:TEXT_LIMIT])
                try:
                    summary = _confirmed(lease, make_service(rollout, self.kubernetes_conn_id), noted).summary
                finally:
                    self._keep("paused", spec, context)
        self.log.info(summary)
        tell_act(context, params["model"], summary)
        return summary

    def _keep(self, act: Literal["paused", "resumed"], spec: ReleaseSpec, context: Context) -> None:
        """Keep for the audit who did it; nothing fails by it."""
        try:
            store, version, run = self._store(spec), self._version(spec), context["run_id"]
            entry = AuditEntry(
                act=act,
                model=spec.model,
                version=version,
                run=run,
                at=datetime.now(UTC),
                by=triggered_by(context),
                reason=str(context["params"]["reason"])[:TEXT_LIMIT],
            )
            store.write_once(audit_key(spec.model, version, run, act), entry.to_bytes())
        except (SlipwayError, ValueError) as error:  # ValueError: an entry's limits
            self.log.warning("the person who did this could not be saved for the audit: %s", error)

    def _store(self, spec: ReleaseSpec) -> ModelStoreHook:
        return make_store(self.bucket, spec, self.aws_conn_id, answer_limit_s=_ANSWER_LIMIT_S)

    def _version(self, spec: ReleaseSpec) -> int:
        """Return the version that is tried, by what the cluster serves.

        :raises SlipwayError: that is unknown.
        """
        observed = observe_service(make_service(spec.rollout, self.kubernetes_conn_id))
        if observed is None:
            raise InputMissingError(
                f"{spec.model} has no InferenceService", expected="the one of its canary", found="none"
            )
        return parse_storage_uri(observed.storage_uri)[1]

    def _held(self, spec: ReleaseSpec) -> str:
        """Return what will hold the next raise, in words; "" where nothing does. A resume never fails by it."""
        try:
            store = self._store(spec)
            state = ReleaseRecord(store, spec.model, self._version(spec), "").state()
            hold = HoldReader(store, spec.model, spec.rollout.release_windows).hold(
                state.overrides, state.triggered_by
            )
        except SlipwayError as error:
            self.log.warning("what holds the next raise could not be read: %s", error)
            return "; whether something holds its next raise could not be read"
        if state.rejection is not None:
            return (
                f"; it gets no further weight and is rolled back, because it was {state.rejection.sentence}"
            )
        return "" if hold is None else f"; no weight is raised before that ends: {hold.reason}"


def _confirmed(lease: LeaseHook, service: KServeHook, noted: Lease) -> PauseOutcome:
    """Wait until the holder of the lease has confirmed the pause, or the canary is over."""
    limit_s = min(noted.lease_s, LONGEST_WAIT_S) + _SPARE_S
    deadline, found = time.monotonic() + limit_s, "the lease has not been renewed since"
    while time.monotonic() < deadline:
        try:
            now = lease.get()
            outcome = pause_outcome(noted, now, observe_service(service))
        except TransientError as error:
            outcome, found = None, error.in_short()
        if outcome is None:
            time.sleep(POLL_S)
        elif outcome.holds:
            return outcome
        else:
            raise CanaryEndedError(
                f"the canary of {noted.release_id} is not paused",
                expected="a canary that stays at its weight",
                found=outcome.summary,
                remedy="see the release's record; `model_rollback` brings users back from a promoted version",
            )
    raise TimedOutError(
        f"the pause of the canary of {noted.release_id} is noted but not confirmed",
        expected=f"a renewal of the canary's lease within {limit_s:.0f} s",
        found=found,
        remedy="check that the triggerer runs and can read the metrics; a lease that is not renewed ends the canary",
    )
