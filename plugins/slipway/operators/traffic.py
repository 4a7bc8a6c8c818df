"""What every step that looks at, or changes, who serves the users has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from include.model_release.errors import SlipwayError
from include.model_release.rollout.next_action import Goal, RollBack
from include.model_release.rollout.observation import Observed
from include.model_release.rollout.reconciler import Reconciliation
from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.metrics.source import DEFAULT_METRICS_CONN_ID
from slipway.operators.base import ReleaseOperator
from slipway.rollback_address import RollbackAddress
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.raise_permit import RaisePermit
from slipway.traffic.reconciler import observe_service, reconcile

if TYPE_CHECKING:
    from airflow.sdk import Context


class TrafficOperator(ReleaseOperator):
    """A step that looks at, or changes, who serves the users.

    :param kubernetes_conn_id: the cluster's connection.
    :param metrics_conn_id: where the judge's numbers come from.
    """

    def __init__(
        self,
        *,
        kubernetes_conn_id: str = "kubernetes_default",
        metrics_conn_id: str = DEFAULT_METRICS_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id
        self.metrics_conn_id = metrics_conn_id

    @property
    def address(self) -> RollbackAddress:
        """Which InferenceService this is about: all that a step back needs of the release run."""
        return RollbackAddress.parse(self.release)

    @property
    def service(self) -> KServeHook:
        """The release's InferenceService."""
        address = self.address
        return KServeHook(address.inference_service, address.namespace, self.kubernetes_conn_id)

    @property
    def lease(self) -> LeaseHook:
        """The lease of the canary on it."""
        address = self.address
        return LeaseHook(address.inference_service, address.namespace, self.kubernetes_conn_id)

    @property
    def permit(self) -> RaisePermit:
        """What is asked before a weight is raised."""
        return RaisePermit(self.store, self.release_run)

    def tell(self, reconciliation: Reconciliation) -> None:
        """Log what is being done to the InferenceService, and why."""
        action = reconciliation.action
        self.log.info("%s: %s", type(action).__name__.lower(), action.reason)

    def reach(
        self,
        goal: Goal,
        on_progress: Callable[[Reconciliation], None] | None = None,
        lease_holder: LeaseHolder | None = None,
        observed: Observed | None = None,
    ) -> Reconciliation:
        """Bring the InferenceService to a goal, at most as long as a revision may take to come up.

        :param observed: what was seen of it a moment ago; None: look first.
        :param lease_holder: the hold on the canary that raising a weight needs; going back needs none.
        :raises CanaryPausedError: the canary is held, and a person has paused it.
        """
        options: dict[str, Any] = {} if observed is None else {"observed": observed}
        if lease_holder is not None:
            options |= {"permit": lease_holder.keep_to_raise, "while_waiting": lease_holder.keep_if_due}
        timeout_s = self.address.ready_timeout_s
        return reconcile(
            self.service, goal, timeout_s=timeout_s, on_progress=on_progress or self.tell, **options
        )

    def take_back_canary(self, candidate_uri: str = "") -> None:
        """Takes a canary that is under way, if one is, back to what its own annotations name as stable."""
        observed = observe_service(self.service)
        if observed is not None and observed.canary_percent is not None:
            self.log.warning("a canary is under way; taking it back to %s", observed.stable_uri)
            self.reach(RollBack(observed.stable_uri, candidate_uri))
        self.conceal_candidate(observed)
        # Also one that a release which died has left; the model's lock says that no other release lives.
        lease = self.lease.get()
        if lease is not None:
            self.lease.release(lease.release_id)

    def conceal_candidate(self, observed: Observed | None) -> None:
        """Takes the candidate's own route away, which only the Standard dialect has.

        It leads nowhere once the candidate is gone and goes with the InferenceService; so it holds nothing up.
        """
        if observed is None or observed.dialect != "Standard":
            return
        try:
            self.service.conceal()
        except SlipwayError as error:
            self.log.warning("the candidate's own HTTPRoute stays: %s", error)


def attempt_of(context: Context) -> int:
    """Airflow's number of this try of the task; it stays while the task is deferred."""
    task_instance = context.get("ti")
    return 1 if task_instance is None else int(task_instance.try_number)
