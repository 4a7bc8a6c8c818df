"""What the watch of one step asks of the cluster: its weight, its lease, and that nobody else changes anything."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.inference_service import KServeHook
from slipway.release_context import make_store
from slipway.release_record.fresh_permission import both
from slipway.release_run import ReleaseRun
from slipway.traffic.candidate_pods import CandidatePods
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.raise_permit import RaisePermit
from slipway.traffic.reconciler import observe_service, reconcile_async
from slipway_core.errors import (
    CanaryPausedError,
    ForeignChangeError,
    TransientError,
    UserError,
)
from slipway_core.rollout.next_action import (
    Action,
    Goal,
    Impossible,
    Observed,
    Patch,
    ShiftWeight,
    StartCanary,
    Wait,
    next_action,
)
from slipway_core.rollout.reconciler import Reconciliation

log = logging.getLogger(__name__)

# One call: its requests have limits of their own.
_CALL_LIMIT_S = 30.0
# Between two looks for the end of a pause before the first percent.
PAUSED_POLL_S = 3.0
# How long the lease is renewed for users on the candidate whom nobody judges, since a raise is waited for.
UNJUDGED_LIMIT_S = 120.0
# One request to the object store while a raise waits for it.
_STORE_TIMEOUT_S = 2.0


class CanaryCluster:
    """The cluster's side of one step.

    While users are watched nothing here is waited for: a cluster that hangs must not keep the judge from its windows.
    What a look or a renewal has found is raised by the next call of `poll`.

    :param step: index of the step, and `weight` its percent.
    :param generation: the InferenceService's when the canary was decided on; None: whatever is there.
    `waiting` is why the weight is not reached yet, and `on_waiting` is called when that changes.

    :param permit: raises unless the version may get that many percent now; asked right before each patch that raises.
        None: the release's record, in the bucket as Airflow's default connection reaches it.
    """

    def __init__(
        self,
        release_run: ReleaseRun,
        step: int,
        weight: int,
        *,
        service: KServeHook,
        lease_holder: LeaseHolder,
        generation: int | None = None,
        permit: Callable[[int], None] | None = None,
    ) -> None:
        self._release_run = release_run
        self._step, self._weight = step, weight
        self._service, self._lease_holder = service, lease_holder
        self._generation = generation
        self._permit = permit or _permit_of_record(release_run)
        self._calls = BlockingCalls("the cluster's API", _CALL_LIMIT_S)
        self._asking: asyncio.Task[None] | None = None
        self._look_wanted = self._renewal_wanted = False
        self._has_answered = True
        self._unjudged_since_s: float | None = None
        self.urls: Mapping[str, str] = {}
        self.waiting = ""
        self.on_waiting: Callable[[], None] = lambda: None
        self.pods = CandidatePods(service, weight)

    @property
    def paused(self) -> str:
        """Why a person wants the canary to stay at its weight, as the last renewal found; "" where nobody does."""
        return self._lease_holder.paused

    @property
    def ended_by(self) -> str:
        """Who ended the canary; "" where nobody did."""
        return self._lease_holder.ended_by

    async def reach_weight(self) -> Observed:
        """Bring the candidate to the weight, until the traffic is seen to be as wanted.

        :raises CanaryPausedError: the canary has users, and shall stay where it is.
        :raises CanaryEndedError: somebody ended the canary.
        :raises ReleaseHeldError: there is a freeze, or no release window is open.
        :raises RaiseRefusedError: the record does not permit the weight, or not any more.
        """
        logged = ""
        while True:
            try:
                return await self._reach_weight()
            except CanaryPausedError as paused:
                if self._step > 0:
                    raise
                # Nobody is led to the candidate yet, so there is nothing to judge meanwhile.
                if logged != str(paused):
                    logged = str(paused)
                    log.info("the first raise waits: %s", paused.in_short())
                await asyncio.sleep(PAUSED_POLL_S)
            except UserError:
                # What looks like another's change may be the end of the canary by its guard.
                await self._calls.run(self._lease_holder.require_not_ended)
                raise

    async def _reach_weight(self) -> Observed:
        raise_hold = self._lease_holder.keep_to_raise
        if self._step == 0:
            raise_hold = self._lease_holder.take_to_raise
            if await self._has_more_users():
                # A task that is run again may find more users there than the first step gives: they are taken back
                # first, also from a canary that is paused, and nobody is asked for that.
                await self._reconcile(permit=self._lease_holder.take, suffices=self._has_no_more_users)
        reached = await self._reconcile(permit=both(raise_hold, lambda: self._permit(self._weight)))
        assert reached.observed is not None  # noqa: S101  Done is only said of what exists
        self.urls = reached.observed.urls
        return reached.observed

    async def _reconcile(
        self, permit: Callable[[], None], suffices: Callable[[Reconciliation], bool] | None = None
    ) -> Reconciliation:
        def seen(reconciliation: Reconciliation) -> bool:
            self._note_users(reconciliation.observed)
            self._note_wait(reconciliation.action)
            return suffices is not None and suffices(reconciliation)

        reached = await reconcile_async(
            self._calls,
            self._service,
            self._goal(),
            timeout_s=self._release_run.spec.rollout.ready_timeout_s,
            permit=permit,
            while_waiting=self._keep_while_booting,
            suffices=seen,
        )
        self.waiting = ""
        return reached

    def _note_wait(self, action: Action) -> None:
        """Tell people what the weight waits for, whenever that changes."""
        waiting = action.reason if isinstance(action, Wait) else ""
        if waiting == self.waiting:
            return
        self.waiting = waiting
        if isinstance(action, Wait) and action.failure:
            log.info("%s", waiting)
        self.on_waiting()

    async def _has_more_users(self) -> bool:
        try:
            observed = await self._calls.run(lambda: observe_service(self._service))
        except TransientError:
            return False
        return observed is not None and (observed.canary_percent or 0) > self._weight

    def _has_no_more_users(self, seen: Reconciliation) -> bool:
        """Return whether a patch could only raise the candidate's share from here on."""
        return seen.observed is None or (seen.observed.canary_percent or 0) <= self._weight

    def _goal(self) -> Goal:
        release_run = self._release_run
        if self._step > 0:
            return ShiftWeight(self._weight, release_run.storage_uri)
        return StartCanary(
            release_run.storage_uri,
            self._weight,
            release_id=release_run.release_id,
            version=release_run.version,
            force=release_run.force,
            generation=self._generation,
        )

    async def _keep_while_booting(self) -> None:
        """Renew the lease while a patch is waited for; not for long where users are on the candidate already: nobody
        judges them meanwhile.
        """
        if self._unjudged_since_s is not None:
            unjudged_s = time.monotonic() - self._unjudged_since_s
            if unjudged_s > UNJUDGED_LIMIT_S:
                log.warning("users were not judged for %.0f s: the lease is no longer renewed", unjudged_s)
                return
        if self._lease_holder.is_due:
            await self._renew(boots=self._step == 0)

    def _note_users(self, observed: Observed | None) -> None:
        """Note since when users are on the candidate."""
        if observed is None or self._unjudged_since_s is not None:
            return
        if observed.share(observed.revision_of(self._release_run.storage_uri)) > 0:
            self._unjudged_since_s = time.monotonic()

    def poll(self, *, look_too: bool = False) -> None:
        """To be called whenever users' answers were seen and judged: renews the lease where it is due, without waiting.
        Who judges none does not call it, and loses the lease.

        :param look_too: sees as well whether the InferenceService is as planned.
        :raises CanaryEndedError: somebody ended the canary.
        :raises ForeignChangeError: it names another version, or the weight is another one.
        """
        self._look_wanted |= look_too
        if self._asking is not None and not self._asking.done():
            return
        if self._asking is not None:
            self._asking.result()
        self._renewal_wanted |= self._lease_holder.is_due
        self._ask_what_is_wanted()

    def _ask_what_is_wanted(self) -> None:
        if self._look_wanted or self._renewal_wanted:
            self._asking = asyncio.create_task(self._ask())

    async def answers(self, limit_s: float, *, renew: bool) -> bool:
        """Return whether the cluster answers a look that begins now, within the limit, and a renewal where asked for.
        For a decision that a pause, an end or another's change would forbid.

        :raises CanaryEndedError: somebody ended the canary.
        :raises ForeignChangeError: it names another version, or the weight is another one.
        """
        self._renewal_wanted, self._look_wanted, self._has_answered = renew, True, True
        deadline = time.monotonic() + limit_s
        while self._renewal_wanted or self._look_wanted or not (self._asking is None or self._asking.done()):
            if self._asking is None or self._asking.done():
                if self._asking is not None:
                    self._asking.result()
                self._ask_what_is_wanted()
            assert self._asking is not None  # noqa: S101  something is wanted
            await asyncio.wait({self._asking}, timeout=max(0.0, deadline - time.monotonic()))
            if not self._asking.done():
                return False
            self._asking.result()
        return self._has_answered

    async def _ask(self) -> None:
        if self._renewal_wanted:
            self._renewal_wanted = False
            await self._renew()
        if self._look_wanted:
            self._look_wanted = False
            await self._require_as_planned()

    async def _renew(self, *, boots: bool = False) -> None:
        """The first step begins the canary; later on it is under way, or over."""
        try:
            await self._calls.run(self._lease_holder.take if boots else self._lease_holder.keep)
        except TransientError as error:
            self._has_answered = False
            log.warning("the canary's lease could not be renewed: %s", error.in_short())

    async def _require_as_planned(self) -> None:
        """Notice what others do to the InferenceService; it is never overwritten here."""
        goal = ShiftWeight(self._weight, self._release_run.storage_uri)
        try:
            observed = await self._calls.run(lambda: observe_service(self._service))
        except TransientError as error:
            self._has_answered = False
            log.warning("the InferenceService could not be read: %s", error.in_short())
            return
        if observed is not None:
            self.urls = observed.urls
        action = next_action(goal, observed)
        # Whether the newest revision is the one that the spec names was known when its weight was raised.
        is_other_weight = observed is not None and observed.canary_percent != self._weight
        if is_other_weight or isinstance(action, Patch | Impossible):
            await self._calls.run(self._lease_holder.require_not_ended)
            raise ForeignChangeError(
                f"something else changed the InferenceService {self._service.namespace}/{self._service.name}",
                expected=f"{self._release_run.storage_uri} at {self._weight} %",
                found=self._found(observed, action),
                remedy="find out who changed it; the release rolls back its own part",
            )

    def _found(self, observed: Observed | None, action: Action) -> str:
        if observed is None or isinstance(action, Patch | Impossible):
            return action.reason
        return f"{observed.storage_uri} at {observed.canary_percent} %"

    def stop(self) -> None:
        """Wait for no answer any more."""
        if self._asking is not None and not self._asking.cancel() and not self._asking.cancelled():
            self._asking.exception()


def _permit_of_record(release_run: ReleaseRun) -> Callable[[int], None]:
    """Return what asks the release's record, in the bucket as Airflow's default connection reaches it."""
    store = make_store(release_run.bucket, release_run.spec, "aws_default", answer_limit_s=_STORE_TIMEOUT_S)
    return RaisePermit(store, release_run).require
