"""The deployment modes that a release file may name, with what the release file has to know of each.

Everything else about a mode is its dialect's (`slipway_core.rollout.dialects`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DeploymentModeName = Literal["Knative", "Standard"]


@dataclass(frozen=True)
class DeploymentMode:
    """What differs between the modes for somebody who writes a release file.

    :param canary_adds_replicas: a canary's replicas are added to those of the stable version, within `max_replicas`.
    :param stable_has_url: the stable version can be asked at a URL of its own during a canary.
    """

    canary_adds_replicas: bool
    stable_has_url: bool


DEPLOYMENT_MODES: Mapping[str, DeploymentMode] = {
    "Knative": DeploymentMode(canary_adds_replicas=False, stable_has_url=True),
    "Standard": DeploymentMode(canary_adds_replicas=True, stable_has_url=False),
}


def deployment_mode(name: str) -> DeploymentMode:
    """Return what is known of a mode; one that no release file can name offers nothing."""
    return DEPLOYMENT_MODES.get(name, DeploymentMode(canary_adds_replicas=True, stable_has_url=False))


def modes_with_stable_url() -> str:
    """Return the modes in which golden requests can be streamed to the stable version, in words."""
    return " or ".join(name for name, mode in DEPLOYMENT_MODES.items() if mode.stable_has_url)
