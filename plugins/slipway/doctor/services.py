"""The InferenceServices of the release files, as they are deployed."""

from __future__ import annotations

from slipway.doctor.installation import Installation
from slipway.hooks.inference_service import KServeHook
from slipway.traffic.reconciler import observe_service
from slipway_core.rollout.observation import Observed
from slipway_core.spec.release_file import ReleaseSpec


def observed_service(installation: Installation, spec: ReleaseSpec) -> Observed | None:
    """Return the observation of a release file's InferenceService, None where it is not deployed.

    :raises ClusterUnavailableError: it cannot be read.
    """
    rollout = spec.rollout
    hook = KServeHook(rollout.inference_service, rollout.namespace, installation.kubernetes_conn_id)
    return observe_service(hook)


def service_name(spec: ReleaseSpec) -> str:
    """Return what a line calls the InferenceService of a release file."""
    return f"InferenceService {spec.rollout.namespace}/{spec.rollout.inference_service}"
