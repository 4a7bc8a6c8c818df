"""The pod that a task finds under its own name: of an earlier try, which is continued, or one that is ending.

A task that is run again finds its pod by the name, which is made of stage, model, version, release and measurement. The
provider finds it by labels and by what it has noted. Labels are those of a later measurement too, and a pod that was
asked to stop may still be there for half a minute and looks as if it ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kubernetes.client import models as k8s

from slipway_core.errors import PodStartError

# A pod has 30 s between SIGTERM and SIGKILL; a kubelet reports its end some seconds later.
GONE_LIMIT_S = 120.0
POLL_S = 1.0


def is_ending(pod: k8s.V1Pod) -> bool:
    """Return whether somebody has deleted the pod: it may run for a while yet, and is nobody's to wait for."""
    return pod.metadata is not None and pod.metadata.deletion_timestamp is not None


def is_over(pod: k8s.V1Pod) -> bool:
    """Return whether the pod has ended, and so does nothing for who finds it."""
    return pod.status is not None and pod.status.phase in ("Succeeded", "Failed")


def await_gone(
    read: Callable[[], k8s.V1Pod | None],
    tell: Callable[[str], None],
    *,
    limit_s: float | None = None,
) -> k8s.V1Pod | None:
    """Return the pod of an earlier try that may be gone on with; wait for one that ends until it is gone.

    :param read: reads the pod of the task's name; None: there is none.
    :raises PodStartError: it does not go.
    """
    limit_s = GONE_LIMIT_S if limit_s is None else limit_s
    began_s, is_logged = time.monotonic(), False
    while (pod := read()) is not None and is_ending(pod):
        name = pod.metadata.name
        if time.monotonic() - began_s >= limit_s:
            raise PodStartError(
                f"the pod {name!r} of an earlier try does not end",
                expected=f"its end within {limit_s:.0f} s",
                found=f"Terminating since {pod.metadata.deletion_timestamp}",
                remedy="check its node and its finalizers (kubectl describe pod); if the node is lost, delete the "
                "pod by force",
            )
        if not is_logged:
            tell(f"the pod {name} of an earlier try is ending; waiting until it is gone")
            is_logged = True
        time.sleep(POLL_S)
    return pod
