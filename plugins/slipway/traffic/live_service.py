"""The InferenceService that serves a model's users, as the tasks of a release change it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from slipway.release_context import ReleaseContext
from slipway.release_record.fresh_permission import both
from slipway.traffic.drain import CandidateDrain
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.reconciler import observe_service, reconcile
from slipway.traffic.way_back import WayBack
from slipway.workflows import MODEL_RELEASE
from slipway_core.errors import SlipwayError
from slipway_core.operations.notices.of_release import lease_lost_notice
from slipway_core.rollout.dialects.registry import dialect_named
from slipway_core.rollout.lease import Lease
from slipway_core.rollout.next_action import Goal, RollBack
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reconciler import Reconciliation

log = logging.getLogger(__name__)


class LiveService:
    """A release's InferenceService; it needs nothing but the cluster."""

    def __init__(self, parts: ReleaseContext) -> None:
        self._parts = parts

    def observe(self) -> Observed | None:
        """Return what is there; None: no InferenceService."""
        return observe_service(self._parts.service)

    def reach(
        self,
        goal: Goal,
        on_progress: Callable[[Reconciliation], None] | None = None,
        lease_holder: LeaseHolder | None = None,
        observed: Observed | None = None,
        suffices: Callable[[Reconciliation], bool] | None = None,
        permit: Callable[[], None] | None = None,
    ) -> Reconciliation:
        """Bring the InferenceService to a goal, at most as long as a revision may take to come up.

        :param on_progress: is called with what was done; None: it is logged.
        :param lease_holder: the hold on the canary that raising a weight needs; going back needs none.
        :param observed: what was observed a moment ago; None: observe first.
        :param suffices: whether what is observed is enough, though the goal may not be reached.
        :param permit: is asked before each patch, see `reconcile`; going back asks nobody.
        :raises CanaryPausedError: the canary is held, and a person has paused it.
        """
        service, timeout_s = self._parts.service, self._parts.address.ready_timeout_s
        reach = partial(
            reconcile,
            service,
            goal,
            timeout_s=timeout_s,
            on_progress=on_progress or tell,
            observed=observed,
            suffices=suffices,
        )
        if lease_holder is None:
            return reach(permit=permit)
        hold = lease_holder.keep_to_raise
        return reach(
            permit=hold if permit is None else both(hold, permit), while_waiting=lease_holder.keep_if_due
        )

    def take_back_canary(self, candidate_uri: str = "") -> None:
        """Take a canary that is under way, if one is, back to what its own annotations name as stable.

        What is open on it is drained, as in a rollback.
        """
        observed = self.observe()
        if observed is not None and observed.canary_percent is not None:
            log.warning("a canary is under way; rolling it back to %s", observed.stable_uri)
            left = observed.storage_uri
            way = WayBack(self.reach, drain_of(self._parts, left), left, on_progress=tell)
            way.go(RollBack(observed.stable_uri, candidate_uri), observed)
            way.drained()
        self.conceal_candidate(observed)
        # Also one that a release which died has left; the model's lock says that no other release lives.
        lease = self._parts.lease.get()
        if lease is not None:
            self._tell_if_lost(lease)
            self._parts.lease.release(lease.release_id)

    def conceal_candidate(self, observed: Observed | None) -> None:
        """Take the candidate's own route away, where the dialect has one.

        It leads nowhere once the candidate is gone and goes with the InferenceService; so it holds nothing up.
        """
        if observed is None or not dialect_named(observed.dialect).exposes_candidate:
            return
        try:
            self._parts.service.conceal()
        except SlipwayError as error:
            log.warning("the candidate's own HTTPRoute stays: %s", error)

    def leave_lease(self) -> None:
        """Give the lease of this release's canary back."""
        lease = self._parts.lease.get()
        if lease is not None and lease.release_id == self._parts.address.release_id:
            self._tell_if_lost(lease)
            self._parts.lease.release(lease.release_id)

    def _tell_if_lost(self, lease: Lease) -> None:
        """Tell people of a canary that its guard has ended, which is seen here, perhaps long after."""
        address = self._parts.address
        now = datetime.now(UTC)
        self._parts.outbox.tell(
            lease_lost_notice(address.model, address.version, lease, at=now, dag_id=MODEL_RELEASE)
        )


def drain_of(parts: ReleaseContext, candidate_uri: str) -> CandidateDrain:
    """Return what watches the revision that serves a version from weight 0 on."""
    return CandidateDrain(
        lambda: parts.service,
        parts.make_metrics,
        candidate_uri=candidate_uri,
        drain_s=parts.address.drain_s,
    )


def tell(reconciliation: Reconciliation) -> None:
    """Log what is being done to the InferenceService, and why."""
    action = reconciliation.action
    log.info("%s: %s", type(action).__name__.lower(), action.reason)
