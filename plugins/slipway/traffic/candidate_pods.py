"""What the cluster says of the candidate's pods while users are watched: whether it took one away itself."""

from __future__ import annotations

import logging
from dataclasses import replace

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.inference_service import KServeHook
from slipway_core.errors import SlipwayError
from slipway_core.metrics.samples import Window
from slipway_core.rollout.pods.disruption import PodState, disruption

log = logging.getLogger(__name__)

# A window with errors is not judged before the answer: users wait no longer than this for it, and once only.
LOOK_LIMIT_S = 1.0


class CandidatePods:
    """Tells a node that was lost from a model that fails.

    Pods that cannot be read, now or when the step began, excuse nothing: then every window is judged.

    :param weight: percent of the users on the candidate in this step.
    """

    def __init__(self, service: KServeHook, weight: int) -> None:
        self._service, self._weight = service, weight
        self._calls = BlockingCalls("the candidate's pods", LOOK_LIMIT_S)
        self._revision = ""
        self._before: tuple[PodState, ...] | None = None

    async def begin(self, revision: str) -> None:
        """Note what the pods are like before the step is watched."""
        self._revision, self._before = revision, await self._look(revision)

    async def marked(self, window: Window) -> Window:
        """Return the window, with what the cluster did to the candidate where that may explain its errors."""
        if self._before is None or not _fails_more(window):
            return window
        now = await self._look(self._revision)
        return (
            window if now is None else replace(window, disruption=disruption(self._before, now, self._weight))
        )

    async def _look(self, revision: str) -> tuple[PodState, ...] | None:
        if self._calls.is_busy:
            return None  # a look that hangs is waited for once
        try:
            return await self._calls.run(lambda: self._service.pod_states(revision))
        except SlipwayError as error:
            log.info("the candidate's pods could not be read: %s", error.in_short())
        except Exception as error:  # whatever it is, the window is judged
            log.warning("the candidate's pods could not be read: %s", error)
        return None


def _fails_more(window: Window) -> bool:
    candidate, stable = window.candidate, window.stable
    return candidate.errors * max(stable.requests, 1) > stable.errors * candidate.requests
