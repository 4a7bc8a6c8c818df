"""The deployment modes of a release file, beside the dialects that carry a rollout out."""

from __future__ import annotations

from typing import get_args

from slipway_core.rollout.dialects.registry import DIALECTS
from slipway_core.spec.servers.deployment_modes import (
    DEPLOYMENT_MODES,
    DeploymentModeName,
    deployment_mode,
    modes_with_stable_url,
)


def test_each_dialect_has_a_mode_that_a_release_file_can_name() -> None:
    """And no release file names one that nobody carries out."""
    assert set(DEPLOYMENT_MODES) == set(get_args(DeploymentModeName)) == set(DIALECTS)


def test_a_mode_that_is_not_known_offers_nothing() -> None:
    """No stable URL to ask, and replicas that may not suffice: the cautious side of both."""
    unknown = deployment_mode("Serverless2")
    assert (unknown.canary_adds_replicas, unknown.stable_has_url) == (True, False)
    assert modes_with_stable_url() == "Knative"
