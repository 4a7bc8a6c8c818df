"""The Lease by which the guard shows that it looks: in each of its namespaces, renewed after every look.

No canary's: its name has a dot, which no InferenceService's can have, and it lacks the label of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from slipway_core.rollout.lease import API_VERSION, GROUP

NAME = "slipway.guard"
EVERY_S = 10.0
"""The least time between two renewals."""
LATE_AFTER_S = 180.0
"""A guard that is a CronJob looks once a minute."""
_HOLDER_LIMIT = 200


def heartbeat(namespace: str, holder: str, now: datetime) -> dict[str, Any]:
    """Return the Lease as the guard writes it, to create it or as a merge patch."""
    return {
        "apiVersion": f"{GROUP}/{API_VERSION}",
        "kind": "Lease",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "slipway-guard"},
        },
        "spec": {
            "holderIdentity": holder[:_HOLDER_LIMIT],
            "renewTime": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z",
            "leaseDurationSeconds": int(LATE_AFTER_S),
        },
    }


def heartbeat_of(lease: Mapping[str, Any]) -> tuple[datetime | None, str]:
    """Return when the guard renewed the Lease (UTC; None: that cannot be read), and who did."""
    spec = lease.get("spec")
    if not isinstance(spec, Mapping):
        return None, ""
    try:
        at = datetime.fromisoformat(str(spec.get("renewTime")))
    except ValueError:
        return None, ""
    holder = str(spec.get("holderIdentity") or "")[:_HOLDER_LIMIT]
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC), holder
