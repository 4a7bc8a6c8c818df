"""How far the pods of an InferenceService are on their way to answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.rollout.fields import condition_is_true, mapping
from slipway_core.rollout.pods.drain import serving_pods
from slipway_core.rollout.pods.trouble import PodTrouble, pod_trouble


@dataclass(frozen=True)
class StartingPod:
    """A pod that is to serve a revision.

    :param source_uri: what it serves; "" if it does not tell.
    :param trouble: why it does not answer; None: nothing is known to hold it up.
    """

    uid: str
    revision: str
    source_uri: str
    is_ready: bool
    trouble: PodTrouble | None


def starting_pods(pods: Iterable[Mapping[str, Any]]) -> tuple[StartingPod, ...]:
    """Read the pods of an InferenceService, as the API gives them."""
    return tuple(_starting_pod(pod) for pod in pods)


def _starting_pod(pod: Mapping[str, Any]) -> StartingPod:
    (serving,) = serving_pods([pod])
    trouble = pod_trouble(pod)
    is_ready = trouble is None and condition_is_true(mapping(pod.get("status")), "Ready")
    return StartingPod(serving.uid, serving.revision, serving.source_uri, is_ready, trouble)
