"""Airflow's own metrics: if its `[metrics]` options say so, they count what happens in releases.

No release waits for them: a separate thread sends them, and the release waits at most one second for it. Where that
was not enough once, this process no longer sends to them. Errors are logged.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from airflow.sdk.observability import stats

from slipway_core.monitoring.moments import Measurement

log = logging.getLogger(__name__)

LIMIT_S = 1.0


class AirflowStats:
    """Tells Airflow's metrics.

    :param limit_s: how long is waited for them, once.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._hangs = False

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Tell them of these."""
        if not measurements or self._hangs:
            return
        done = threading.Event()

        def work() -> None:
            for one in measurements:
                _tell(one)
            done.set()

        try:
            threading.Thread(target=work, name="slipway Airflow's metrics", daemon=True).start()
        except RuntimeError as error:  # no thread can be started
            log.warning("Airflow's metrics do not cover the release: %s", error)
            return
        if not done.wait(self._limit_s):
            self._hangs = True
            log.warning(
                "Airflow's metrics took longer than %g s and are turned off: see the options in [metrics]",
                self._limit_s,
            )


def _tell(one: Measurement) -> None:
    name, tags = one.moment.name, dict(one.tags)
    try:
        match one.moment.kind:
            case "counter":
                stats.incr(name, int(one.value), tags=tags)
            case "gauge":
                stats.gauge(name, one.value, tags=tags)
            case "timer":
                stats.timing(name, one.value, tags=tags)
    except Exception as error:  # whatever it is: no release fails for it
        log.warning("Airflow's metrics do not cover %s: %s", name, error)


AIRFLOW_STATS = AirflowStats()
