"""A canary that stays where it is until a person has looked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from include.model_release.errors import CanaryEndedError, TimedOutError, TransientError
from include.model_release.rollout.lease import TEXT_LIMIT, Lease
from include.model_release.rollout.pause import PauseOutcome, pause_outcome
from include.model_release.spec.release_file import load_model_spec
from include.model_release.spec.run_overrides import PAUSE_PARAMETERS, require_known
from slipway.failures import airflow_failures
from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.release_context import make_lease, make_service
from slipway.traffic.reconciler import observe_service

if TYPE_CHECKING:
    from airflow.sdk import Context

POLL_S = 0.5
# A holder renews every ten seconds and more often; between two of a release's tasks nobody does.
LONGEST_WAIT_S = 120.0
_SPARE_S = 5.0


class PauseCanaryOperator(BaseOperator):
    """Keeps a canary at its weight, or lets it go on; the judge watches all the while and may still fail it.

    It says "paused" when no raise and no promotion can follow any more. Until then it waits for the canary's next
    renewal of its lease; where the canary is over by then, it fails and says how.

    What is asked for comes from the run's Params: ``model``, ``action`` (``pause`` or ``resume``) and ``reason``.

    :param releases_dir: the folder with the release files.
    """

    def __init__(
        self, *, releases_dir: str, kubernetes_conn_id: str = "kubernetes_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir
        self.kubernetes_conn_id = kubernetes_conn_id

    def execute(self, context: Context) -> str:
        """Note it on the canary's lease; a pause is confirmed when it holds.

        :returns: what is true now: "paused at 20 %", or that the canary goes on.
        :raises AirflowFailException: the pause came too late; the reason says what happened instead.
        :raises TimedOutError: nobody has said in time that it holds. The note stays.
        """
        params = context["params"]
        with airflow_failures():
            require_known(params, PAUSE_PARAMETERS)
            rollout = load_model_spec(Path(self.releases_dir), str(params["model"])).rollout
            lease = make_lease(rollout, self.kubernetes_conn_id)
            if params["action"] != "pause":
                told = f"the canary of {lease.pause(None).release_id} goes on"
            else:
                noted = lease.pause(str(params["reason"])[:TEXT_LIMIT])
                told = _confirmed(lease, make_service(rollout, self.kubernetes_conn_id), noted).told
        self.log.info(told)
        return told


def _confirmed(lease: LeaseHook, service: KServeHook, noted: Lease) -> PauseOutcome:
    """Wait until the holder of the lease has told that it knows of the pause, or the canary is over."""
    limit_s = min(noted.lease_s, LONGEST_WAIT_S) + _SPARE_S
    deadline, found = time.monotonic() + limit_s, "the lease was not renewed since"
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
                found=outcome.told,
                remedy="look at the release's record; `model_rollback` brings users back from a promoted version",
            )
    raise TimedOutError(
        f"the pause of the canary of {noted.release_id} is noted and not confirmed",
        expected=f"a renewal of the canary's lease within {limit_s:.0f} s",
        found=found,
        remedy="see whether the triggerer lives and sees the metrics; a lease that is not renewed ends the canary",
    )
