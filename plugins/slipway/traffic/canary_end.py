"""The end of a canary by a person's word, from the InferenceService alone: users first, then all that is besides."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from functools import partial

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.kubernetes_object import ATTEMPTS, FIRST_PAUSE_S
from slipway.hooks.lease import LeaseHook
from slipway.metrics.source import metrics_source
from slipway.release_context import make_lease, make_service
from slipway.rollback_address import NamedService
from slipway.traffic.drain import CandidateDrain
from slipway.traffic.live_service import tell
from slipway.traffic.reconciler import observe_service, reconcile
from slipway.traffic.way_back import WayBack
from slipway_core.errors import (
    ClusterUnavailableError,
    InputMissingError,
    SlipwayError,
    TimedOutError,
)
from slipway_core.rollout.next_action import Observed, RollBack

log = logging.getLogger(__name__)

# How long users wait for the lease: its end tells the release why its canary is over, and keeps it from a raise.
LEASE_FIRST_S = 3.0


class CanaryEnd:
    """Takes all users off a candidate, and tells the release that drives it.

    The lease is marked first, for some seconds at most. Whether that can be done or not, the candidate is taken to
    percent 0: a percent of 0 keeps the release from going forward as well.

    :param by: who wants it, and `reason` why.

    `lacking` says afterwards what could not be done.
    """

    def __init__(self, service: KServeHook, leases: LeaseHook, *, by: str, reason: str) -> None:
        self._service = service
        self._leases = leases
        self._by, self._reason = by, reason
        self.lacking: list[str] = []

    def take_back(self, observed: Observed, drain: CandidateDrain, *, timeout_s: float) -> Observed:
        """Bring all traffic back to the version that the InferenceService notes as stable, and wait until nobody is on
        the candidate, or nobody can tell; return what is live then.

        :raises SlipwayError: users could not be taken off; the lease is no reason for that.
        """
        trouble = self._end_lease_within(LEASE_FIRST_S)
        if trouble is not None:
            log.warning("users come first: the canary's lease could not be ended yet: %s", trouble)

        reach = partial(reconcile, self._service, timeout_s=timeout_s)
        way = WayBack(reach, drain, observed.storage_uri, on_progress=tell)
        reached = way.go(RollBack(observed.stable_uri), observed)
        if trouble is not None:
            trouble = self._end_lease_within(LEASE_FIRST_S)
        if trouble is not None:
            self.lacking.append(f"the canary's lease was not marked as ended ({trouble.in_short()})")
        way.drained()
        return reached.observed or observed

    def _end_lease_within(self, limit_s: float) -> SlipwayError | None:
        """End the lease; return what kept it from that. A call that hangs goes on in its thread, and is harmless."""
        trouble: list[SlipwayError] = []

        def end() -> None:
            try:
                self._end_lease()
            except SlipwayError as error:
                trouble.append(error)
            except Exception as error:  # a client's own: users wait for none of them
                trouble.append(ClusterUnavailableError(f"the lease: {type(error).__name__}: {error}"))

        thread = threading.Thread(target=end, name="end of the lease", daemon=True)
        thread.start()
        thread.join(limit_s)
        if thread.is_alive():
            return TimedOutError("the canary's lease could not be ended in time", expected=f"{limit_s:g} s")
        return trouble[0] if trouble else None

    def _end_lease(self) -> None:
        """Mark the lease, if there is one that is not marked yet.

        :raises ClusterUnavailableError: leases cannot be read or written, or this one changes all the while.
        """
        for attempt in range(ATTEMPTS):
            lease = self._leases.get()
            if lease is None or lease.is_ended:
                return
            if self._leases.end(lease, by=self._by, reason=self._reason) is not None:
                return
            time.sleep(FIRST_PAUSE_S * 2**attempt)
        raise ClusterUnavailableError(
            "the canary's lease was changed by others at each attempt to end it",
            expected="an occasional change",
            found=f"{ATTEMPTS} conflicts in a row",
            remedy="find out who else writes it, with `kubectl get lease --show-managed-fields`",
        )


@dataclass(frozen=True)
class EndedCanary:
    """What came of a person's word: what is live, whether there was a canary, and what is lacking besides."""

    live: Observed
    was_canary: bool
    lacking: tuple[str, ...] = ()


def end_named_canary(named: NamedService, kubernetes_conn_id: str, *, by: str, reason: str) -> EndedCanary:
    """Take all users off a canary, if one is under way; its release finds the lease ended, and ends its own record.

    :raises InputMissingError: there is no such InferenceService, or it is another model's.
    :raises SlipwayError: users could not be taken off.
    """
    service = make_service(named, kubernetes_conn_id)
    observed = observe_service(service)
    if observed is None:
        raise InputMissingError(
            f"there is no InferenceService {named.namespace}/{named.inference_service}",
            expected="an InferenceService with a version to roll back from",
            found=f"none{'' if named.problem is None else f'; and {named.problem.in_short()}'}",
            remedy="release a version first, or set `namespace` and `inference_service`",
        )
    named.require_its_model(observed.storage_uri)
    lacking = () if named.problem is None else (f"the release file ({named.problem.in_short()})",)
    if observed.canary_percent is None:
        return EndedCanary(observed, was_canary=False, lacking=lacking)
    end = CanaryEnd(service, make_lease(named, kubernetes_conn_id), by=by, reason=reason)
    drain = CandidateDrain(
        lambda: service,
        lambda: metrics_source(named.required_spec),
        candidate_uri=observed.storage_uri,
        drain_s=named.drain_s,
    )
    live = end.take_back(observed, drain, timeout_s=named.ready_timeout_s)
    log.info("the canary of %s was ended", observed.storage_uri)
    return EndedCanary(live, was_canary=True, lacking=(*lacking, *end.lacking))
