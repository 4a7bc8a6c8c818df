"""The guard shows that it looks: a Lease of its own, written beside the watch, which never waits for it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from datetime import UTC, datetime

from slipway_core.errors import ClusterUnavailableError, SpecError
from slipway_core.rollout.guard_heartbeat import EVERY_S, heartbeat
from slipway_guard.cluster import Cluster
from slipway_guard.log import say


class Heartbeat:
    """Renews the Lease of each namespace that the guard was given; where it was given none, it has no place for one.

    A right that is missing is said once, and changes nothing about the watch.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._holder = socket.gethostname()
        self._began_s = float("-inf")
        self._thread: threading.Thread | None = None
        self._complained = False

    def beat(self) -> None:
        """Renew the Leases where that is due and none is under way; return at once."""
        under_way = self._thread is not None and self._thread.is_alive()
        if under_way or not self._cluster.namespaces or time.monotonic() - self._began_s < EVERY_S:
            return
        self._began_s = time.monotonic()
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)
        self._thread.start()

    def finish(self, limit_s: float) -> None:
        """Wait for a renewal that is under way, for a while."""
        if self._thread is not None:
            self._thread.join(limit_s)

    def _renew(self) -> None:
        for namespace in self._cluster.namespaces:
            try:
                self._cluster.renew_heartbeat(
                    namespace, heartbeat(namespace, self._holder, datetime.now(UTC))
                )
            except (ClusterUnavailableError, SpecError) as error:
                if not self._complained:
                    say("heartbeat_not_written", logging.WARNING, namespace=namespace, found=str(error))
                self._complained = True
