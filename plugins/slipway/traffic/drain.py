"""From weight 0 to nobody, beside a rollback: the candidate's open requests are watched, then its pods are ended.

The rules are the domain's (`rollout/pods/drain.py`). Here they are carried out in threads of their own, so that a
metrics source or an API that hangs holds nothing up but its own part: the count is read in one thread, pods are looked
at and ended in another, and the rollback goes on meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from slipway.hooks.inference_service import KServeHook
from slipway.metrics.active_requests import CountsOpenRequests
from slipway.metrics.source import MetricsSource
from slipway.traffic.reconciler import observe_service
from slipway_core.errors import SlipwayError
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.pods.drain import (
    GONE_LIMIT_S,
    POD_GRACE_S,
    SETTLE_S,
    Drain,
    Drained,
    EndPods,
    Look,
    OpenRequests,
    ServingPod,
    Watch,
    drain_summary,
)

log = logging.getLogger(__name__)

POLL_S = 0.5
# Beyond the domain's own limits: what requests that hang may take.
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class _Count:
    count: OpenRequests
    read_s: float


class CandidateDrain:
    """Watches a revision from weight 0 until nobody is on it, or nobody can tell.

    :param service: gives a hook on the InferenceService that looks no connection up any more.
    :param make_metrics: may raise anything; it is called where Airflow may be asked.
    :param candidate_uri: what the revision serves.
    :param drain_s: how long open requests may take to end by themselves.
    """

    def __init__(
        self,
        service: Callable[[], KServeHook],
        make_metrics: Callable[[], MetricsSource],
        *,
        candidate_uri: str,
        drain_s: float,
    ) -> None:
        self._make_service = service
        self._make_metrics = make_metrics
        self._candidate_uri = candidate_uri
        self._drain_s = drain_s
        self._revision = ""
        self._since = self._weight_0_s = 0.0
        self._count: _Count | None = None
        self._found: Drained | None = None
        self._may_remove = threading.Event()
        self._is_over = threading.Event()

    @property
    def has_begun(self) -> bool:
        """Whether somebody watches."""
        return bool(self._revision)

    def begin(self, revision: str, weight_0_at: datetime) -> None:
        """Begin to watch, without waiting for anything. It raises nothing."""
        self._revision, self._weight_0_s = revision, time.monotonic()
        self._since = weight_0_at.timestamp()
        try:
            metrics = self._make_metrics()
        except Exception as error:  # a connection that is missing or wrong included
            log.warning("open requests on the candidate cannot be counted: %s", error)
        else:
            self._in_thread(lambda: self._count_on(metrics), "open requests")
        try:
            service = self._make_service()
        except Exception as error:  # whatever it is: the rollback goes on
            log.warning("the candidate's pods cannot be read: %s", error)
            self._conclude(Drained("unseen", 0.0))
            return
        self._in_thread(lambda: self._watch(service), "drain")

    def wait_until_removable(self) -> None:
        """Return when what serves the candidate may be taken away: nobody is on it, or its grace is over."""
        if self.has_begun:
            self._may_remove.wait(self._drain_s + _PATIENCE_S)

    def end(self) -> Drained | None:
        """Return how it ended, once it has; None: nobody has begun to watch. It takes a bounded time."""
        if not self.has_begun:
            return None
        limit_s = self._weight_0_s + max(self._drain_s, SETTLE_S) + GONE_LIMIT_S + _PATIENCE_S
        self._is_over.wait(max(limit_s - time.monotonic(), 0.0))
        found = self._found or Drained("unseen", time.monotonic() - self._weight_0_s)
        self._conclude(found)
        log.log(logging.INFO if found.is_nobody else logging.WARNING, "%s", drain_summary(found))
        return found

    def _in_thread(self, run: Callable[[], None], name: str) -> None:
        threading.Thread(target=run, name=name, daemon=True).start()

    def _conclude(self, found: Drained) -> None:
        self._found = found
        self._may_remove.set()
        self._is_over.set()

    # --- the count ---

    def _count_on(self, metrics: MetricsSource) -> None:
        """Keep the newest count whose data are from after weight 0."""
        if not isinstance(metrics, CountsOpenRequests):
            log.info(
                "the metrics source counts answers, not open requests: the candidate's pods are stopped after a set "
                "time"
            )
            return
        while not self._is_over.is_set():
            try:
                count = metrics.open_requests(self._revision)
            except Exception as error:  # whatever it is: what was not counted is not known
                log.info("open requests on the candidate were not counted: %s", error)
            else:
                if count.at >= self._since:
                    self._count = _Count(count, time.monotonic())
            self._is_over.wait(POLL_S)

    # --- the pods ---

    def _watch(self, service: KServeHook) -> None:
        drain = Drain(
            revision=self._revision,
            candidate_uri=self._candidate_uri,
            drain_s=self._drain_s,
            weight_0_s=self._weight_0_s,
        )
        while not self._is_over.is_set():
            step = drain.next(self._look(service))
            match step:
                case Drained():
                    self._conclude(step)
                case EndPods():
                    self._may_remove.set()
                    self._end_pods(service, step)
                case Watch(may_remove=True):
                    self._may_remove.set()
            self._is_over.wait(POLL_S)

    def _look(self, service: KServeHook) -> Look:
        pods: tuple[ServingPod, ...] | None = None
        try:
            pods = service.pods()
        except Exception as error:  # whatever it is: what was not seen is not known
            log.info("the candidate's pods were not read: %s", error)
        now_s, known = time.monotonic(), self._count
        if known is None:
            return Look(now_s, pods=pods)
        return Look(now_s, known.count, now_s - known.read_s, pods)

    def _end_pods(self, service: KServeHook, step: EndPods) -> None:
        """End pods, unless the route leads anybody to their revision by now."""
        try:
            if not is_off(observe_service(service), self._revision):
                log.warning(
                    "the pods of %s are kept: a route may still lead requests to them", self._revision
                )
                return
            for pod in step.pods:
                log.warning(
                    "%s s after weight 0, the pod %s is stopped, with the requests that are open on it",
                    self._drain_s,
                    pod.name,
                )
                service.end_pod(pod, POD_GRACE_S)
        except SlipwayError as error:
            log.warning("the candidate's pods could not be stopped: %s", error.in_short())
        except Exception as error:  # whatever it is: it is tried again
            log.warning("the candidate's pods could not be stopped: %s", error)


def is_off(observed: Observed | None, revision: str) -> bool:
    """Return whether it was seen that no new request is led to the revision; what cannot be seen is not so."""
    if observed is None:
        return True
    is_seen = bool(revision) and observed.traffic_current and bool(observed.traffic)
    return is_seen and observed.share(revision) == 0
