"""Where users would be led at each moment: the KIngress as Knative has applied it, every change of it."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import requests

from tests.support.conformance.api import Api
from tests.support.conformance.gateway import shares_of
from tests.support.waiting import wait_until

_INGRESSES = "/apis/networking.internal.knative.dev/v1alpha1"
_SOURCE_URI = "internal.serving.kserve.io/storage-initializer-sourceuri"
_WATCH_S = 600


@dataclass(frozen=True)
class Lead:
    """From a moment on, on the monotonic clock: percent of the users by revision."""

    since_s: float
    generation: int
    shares: dict[str, int]


class UsersWay(threading.Thread):
    """Follows the KIngress of one InferenceService.

    :param name: the KIngress's, which is the Knative Service's.
    """

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        super().__init__(name=f"users-of-{namespace}", daemon=True)
        self._api, self._ingressspace, self._ingress = api, namespace, name
        self.leads: list[Lead] = []

    def run(self) -> None:
        """Note each change, until the namespace is gone."""
        path = f"{_INGRESSES}/namespaces/{self._ingressspace}/ingresses?watch=1&timeoutSeconds={_WATCH_S}"
        # The API may end before this thread.
        with suppress(requests.RequestException):
            for line in self._api.lines(path):
                event = json.loads(line)
                ingress = event["object"]
                if event["type"] in ("ADDED", "MODIFIED") and ingress["metadata"]["name"] == self._ingress:
                    self._note(ingress["metadata"]["generation"], shares_of(ingress))

    def _note(self, generation: int, shares: dict[str, int]) -> None:
        if not self.leads or self.leads[-1].generation != generation:
            self.leads.append(Lead(time.monotonic(), generation, shares))

    def now(self) -> dict[str, int]:
        """Return where users are led, once this thread has seen what the API has now."""
        path = f"{_INGRESSES}/namespaces/{self._ingressspace}/ingresses/{self._ingress}"
        ingress = self._api.must("GET", path)
        generation = ingress["metadata"]["generation"]
        wait_until(lambda: self.leads and self.leads[-1].generation >= generation, "the change is noted")
        return self.leads[-1].shares

    def largest_share(self, version_uri: str, since_s: float = 0.0) -> int:
        """Return the largest percent that a version had since a moment, what it had at that moment among it."""
        self.now()
        revisions, leads = self._revisions_of(version_uri), tuple(self.leads)
        ends = [*(lead.since_s for lead in leads[1:]), float("inf")]
        return max(
            sum(percent for revision, percent in lead.shares.items() if revision in revisions)
            for lead, end_s in zip(leads, ends, strict=True)
            if end_s > since_s
        )

    def versions_now(self) -> dict[str, int]:
        """Return the percent of users by storageUri."""
        shares: dict[str, int] = {}
        uris = self._uris()
        for revision, percent in self.now().items():
            if percent:
                shares[uris[revision]] = shares.get(uris[revision], 0) + percent
        return shares

    def _revisions_of(self, version_uri: str) -> set[str]:
        return {revision for revision, uri in self._uris().items() if uri == version_uri}

    def _uris(self) -> dict[str, str]:
        path = f"/apis/serving.knative.dev/v1/namespaces/{self._ingressspace}/revisions"
        return {
            one["metadata"]["name"]: one["metadata"].get("annotations", {}).get(_SOURCE_URI, "")
            for one in self._api.items(path)
        }
