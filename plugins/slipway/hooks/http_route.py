"""HTTPRoutes through the Kubernetes API."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from slipway.hooks.kubernetes_object import ATTEMPTS, FIRST_PAUSE_S, ClusterObjectHook
from slipway_core.errors import ClusterUnavailableError, ForeignChangeError
from slipway_core.rollout.dialects.standard.candidate_route import API_GROUP, API_VERSION, is_own
from slipway_kubernetes import ObjectKind


class HTTPRouteHook(ClusterObjectHook):
    """One HTTPRoute; what it makes, replaces and deletes is slipway's own only.

    "Could not read" (`ClusterUnavailableError`) is never reported as "is absent" (`None`).
    """

    object_kind: ClassVar[ObjectKind] = ObjectKind(
        API_GROUP,
        API_VERSION,
        "httproutes",
        "HTTPRoute",
        invalid_remedy="remove `rollout.preview` from the release file, and report this",
    )

    def put(self, manifest: Mapping[str, Any], service: str) -> bool:
        """Create the route, or make one of slipway's like it; False: it has changed since (409), so look again.

        :param service: the InferenceService that it is for.
        :raises ForeignChangeError: somebody else has a route of this name.
        """
        if self._create(manifest) is not None:
            return True
        found = self._own(service)
        if found is None:
            return False
        metadata = {**manifest["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
        return self._patch({"metadata": metadata, "spec": manifest["spec"]}) is not None

    def remove(self, service: str) -> None:
        """Delete the route if there is one of slipway's for this InferenceService.

        :raises ClusterUnavailableError: it was changed by others at each attempt.
        """
        for attempt in range(ATTEMPTS):
            found = self._read()
            if found is None or not is_own(found, service):
                return
            metadata = found["metadata"]
            if self._delete(metadata["uid"], metadata["resourceVersion"]):
                return
            time.sleep(FIRST_PAUSE_S * 2**attempt)
        raise ClusterUnavailableError(
            f"the HTTPRoute {self.namespace}/{self.name} was changed by others during each of {ATTEMPTS} attempts",
            expected="an occasional change between reading and deleting it",
            found=f"{ATTEMPTS} conflicts in a row",
            remedy="find out who else writes it, with `kubectl get httproute --show-managed-fields`",
        )

    def _own(self, service: str) -> dict[str, Any] | None:
        found = self._read()
        if found is not None and not is_own(found, service):
            raise ForeignChangeError(
                f"the HTTPRoute {self.namespace}/{self.name} does not belong to Slipway",
                expected="no HTTPRoute of that name, or one with the label app.kubernetes.io/managed-by: slipway",
                found=f"labels {found['metadata'].get('labels') or {}}",
                remedy="rename that route, or remove `rollout.preview` from the release file",
            )
        return found
