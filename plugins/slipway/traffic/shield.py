"""The shield: all users off the candidate, with nothing but the cluster."""

from __future__ import annotations

import logging

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.inference_service import KServeHook
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import observe_service, reconcile_async
from slipway_core.errors import SlipwayError
from slipway_core.rollout.next_action import Observed, RollBack

log = logging.getLogger(__name__)

# Longer than a cluster's API is away as a rule. What then still is to be done the release's rollback does.
SHIELD_TIMEOUT_S = 180.0
# One call: its requests have limits of their own.
_CALL_LIMIT_S = 30.0


class CanaryShield:
    """Takes the candidate of a release to weight 0.

    It asks nobody, holds no lease and waits for no other part of the watch: its hook and its thread are its own.

    :param service: a hook that nobody else uses.
    """

    def __init__(self, release_run: ReleaseRun, service: KServeHook) -> None:
        self._release_run = release_run
        self._service = service
        self._calls = BlockingCalls("the cluster's API, to shield users", _CALL_LIMIT_S)

    async def prepare(self) -> None:
        """Look up the connection, while Airflow can be asked for it: later it might hang."""
        try:
            await self._calls.run(lambda: observe_service(self._service), limit_s=5.0)
        except SlipwayError as error:
            log.warning("the rollback could not be tested: %s", error.in_short())

    async def take_to_zero(self) -> Observed | None:
        """Roll back until no user is led to the candidate, and no further.

        Percent 0 on the object is how a task that is run again, before the record has the rollback, learns that
        the canary is over. In Standard mode the next action would remove it with the canary.

        :raises SlipwayError: it could not be done in time, or somebody else has changed the InferenceService.
        """
        release_run = self._release_run
        stable_uri = "" if release_run.stable is None else release_run.stable.storage_uri
        reached = await reconcile_async(
            self._calls,
            self._service,
            RollBack(stable_uri, release_run.storage_uri),
            timeout_s=SHIELD_TIMEOUT_S,
            suffices=lambda reconciliation: self._is_done(reconciliation.observed),
        )
        return reached.observed

    def _is_done(self, observed: Observed | None) -> bool:
        """Return whether the spec gives the candidate nothing, and no traffic was seen on its revision."""
        return observed is None or observed.is_shielded_from(self._release_run.storage_uri)
