"""What is deployed already, held against the release file before a release begins."""

from __future__ import annotations

import logging

from slipway_core.errors import UserError
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.servers.deployed import deployed_otherwise
from slipway_core.rollout.servers.served import served_protocol
from slipway_core.spec.release_file import ReleaseSpec

log = logging.getLogger(__name__)


def require_protocol_deployed(spec: ReleaseSpec, observed: Observed) -> None:
    """Log in words where what is deployed is not what the release file says of its servers.

    That stays as it is, for a release changes the model alone.

    :raises UserError: users ask what is deployed by another protocol than the release file says; then golden requests
        would meet no port, and say that a good version answers nothing.
    """
    found, asked = served_protocol(observed.predictor), spec.rollout.protocol
    name = f"{observed.namespace}/{observed.name}"
    if found != asked:
        raise UserError(
            f"{name} does not use the protocol of the release file",
            expected=f"`rollout.protocol: {asked}`",
            found=f"{found}, by the `protocolVersion` and the ports of its predictor's model",
            remedy=f"write `rollout.protocol: {found}`; to change the protocol of a live model, deploy it under "
            "another name (`rollout.inference_service`), since its clients must change too",
        )
    wanted = inference_service_manifest(spec, "")
    for one in deployed_otherwise(wanted, observed.predictor, observed.dialect):
        log.warning("%s stays as it is: %s", name, one)
