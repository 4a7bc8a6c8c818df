"""What a canary's operators talk to, made up at will.

An InferenceService in a model of Knative, its Lease, the metrics, the journal and the golden replay.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from slipway.traffic.checkpoint import WatchState
from slipway_core.canary.verdict import Verdict
from slipway_core.errors import ClusterUnavailableError, MetricsUnavailableError
from slipway_core.metrics.samples import Counters, Reading, Sample, Window
from slipway_core.rollout import reading
from slipway_core.rollout.dialects.knative.resources import KNATIVE_SERVICES
from slipway_core.rollout.holder_identity import HolderIdentity
from slipway_core.rollout.lease import Lease
from slipway_core.rollout.pods.disruption import PodState, pod_states
from slipway_core.rollout.pods.drain import ServingPod
from slipway_core.rollout.pods.starting import StartingPod, starting_pods
from slipway_sandbox.lab.simulation.cluster_model import ConflictError
from slipway_sandbox.lab.simulation.knative_model import KnativeModel

STABLE_URI = "s3://slipway/models/digits/2/repository"
CANDIDATE_URI = "s3://slipway/models/digits/3/repository"


class ServiceDouble:
    """Answers as `KServeHook` does, from a model of Knative whose controllers act at every reading."""

    namespace, name = "models", "digits"

    def __init__(self, model: KnativeModel | None) -> None:
        self.model = model
        self.patches: list[dict[str, Any]] = []
        self.conflicts = 0
        self.away = False
        self.shown_pods: list[dict[str, Any]] | None = []

    def pod_states(self, revision: str) -> tuple[PodState, ...]:
        """Reads the candidate's pods; None in place of them: they cannot be read."""
        if self.shown_pods is None:
            raise ClusterUnavailableError("pods cannot be read")
        return pod_states(self.shown_pods, revision)

    def starting_pods(self) -> tuple[StartingPod, ...] | None:
        """Reads the pods on their way; None: they cannot be read."""
        return None if self.shown_pods is None else starting_pods(self.shown_pods)

    def get(self) -> dict[str, Any] | None:
        """Lets the controllers go on, then reads."""
        if self.away:
            raise ClusterUnavailableError("the API does not answer")
        if self.model is None:
            return None
        self.model.settle(rounds=1)
        return self.model.as_object()

    def read(self, wanted: reading.Reading, uid: str) -> list[dict[str, Any]]:
        """Reads the Knative Service, or revisions."""
        if self.model is None:
            return []
        if wanted.resource == KNATIVE_SERVICES:
            return [self.model.knative_service()]
        return self.model.revision_objects(wanted.names or ())

    def create(self, manifest: dict[str, Any]) -> bool:
        """Creates the InferenceService."""
        self.model = KnativeModel()
        self.model.create(manifest)
        return True

    def delete(self, uid: str, resource_version: str) -> bool:
        """Deletes it."""
        self.model = None
        return True

    def pods(self) -> tuple[ServingPod, ...]:
        """The pods: a revision without users has none, as if each were scaled to zero at once."""
        if self.model is None:
            return ()
        traffic = self.model.as_object()["status"]["components"]["predictor"].get("traffic", [])
        names = {one["revisionName"] for one in traffic if one.get("percent")}
        return tuple(ServingPod(f"{name}-pod", f"{name}-uid", name) for name in sorted(names))

    def end_pod(self, pod: ServingPod, grace_s: int) -> bool:
        """No pod stays for long enough."""
        raise AssertionError(f"{pod.name} has users")

    def patch(self, body: dict[str, Any], limit_s: float | None = None) -> bool:
        """Patches, unless a conflict is due."""
        if self.conflicts:
            self.conflicts -= 1
            return False
        try:
            assert self.model is not None
            self.model.patch(body)
        except ConflictError:
            return False
        self.patches.append(body)
        return True


class MetricsDouble:
    """A metrics source: each reading adds `per_reading` (requests, errors) of each revision."""

    interval_s = lag_s = 0.0

    def __init__(self, stable: tuple[int, int], candidate: tuple[int, int]) -> None:
        self.per_reading = (stable, candidate)
        self.readings = 0
        self.away = False
        self.frozen = False

    def read(self, revisions: Iterable[str]) -> dict[str, Reading]:
        """The counters after one more reading; the first revision is the stable one."""
        if self.away:
            raise MetricsUnavailableError("the metrics endpoint did not answer")
        if not self.frozen:
            self.readings += 1
        return {
            revision: Reading.of(
                self.readings / 100,
                {"router": Counters(requests * self.readings, errors * self.readings)},
            )
            for revision, (requests, errors) in zip(revisions, self.per_reading, strict=True)
        }


class JournalDouble:
    """Keeps what a watch saved, as `CanaryJournal` does in the object store."""

    def __init__(self) -> None:
        self.saved: str | None = None

    def load(self) -> WatchState | None:
        """What was saved last, through JSON."""
        return None if self.saved is None else WatchState.from_dict(json.loads(self.saved))

    def save(self, state: WatchState) -> bool:
        """Keeps the state."""
        self.saved = json.dumps(state.to_dict())
        return True


class LeaseDouble:
    """Answers as `LeaseHook` does, for one holder; `end` is what a guard does."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.away = False
        self.renewals = 0

    def get(self) -> Lease | None:
        """The lease as it stands."""
        if self.away:
            raise ClusterUnavailableError("the API does not answer")
        return self.lease

    def acquire(self, holder: HolderIdentity, *, lease_s: int, candidate_uri: str, stable_uri: str) -> Lease:
        """Takes or renews it."""
        if self.get() is None:
            self.lease = Lease("slipway-digits", "models", "digits", str(holder), lease_s)
        kept = self.keep(holder, lease_s)
        assert kept is not None
        return kept

    def keep(self, holder: HolderIdentity, lease_s: int = 0) -> Lease | None:
        """Renews it, for whoever comes."""
        self.renewals += 1
        found = self.get()
        if found is not None and not found.is_ended:
            self.lease = replace(
                found, holder=str(holder), renewed_at=datetime.now(UTC), lease_s=lease_s or found.lease_s
            )
        return self.lease

    def release(self, release_id: str) -> Lease | None:
        """Gives it back."""
        found, self.lease = self.get(), None
        return found

    def pause(self, reason: str | None) -> Lease:
        """Notes a pause, or (None) its end."""
        assert self.lease is not None
        self.lease = replace(self.lease, paused=reason or "")
        return self.lease

    def end(self, lease: Lease | None = None, *, by: str, reason: str) -> Lease:
        """Ends the canary."""
        assert self.lease is not None
        self.lease = replace(self.lease, ended_by=by, ended_reason=reason)
        return self.lease


class StreamsDouble:
    """Answers as `StreamProbes` does: each window has these (requests, errors); without them nothing is streamed.

    While `is_told` is off it is not known whether the model is asked over streams.
    """

    def __init__(
        self, stable: tuple[int, int] | None = None, candidate: tuple[int, int] = (20, 0), obstacle: str = ""
    ) -> None:
        self.counts = None if stable is None else (stable, candidate)
        self.obstacle = obstacle
        self.is_told = True
        self.urls: list[tuple[str, str]] = []
        self.is_stopped = False

    def begin(self, urls: Callable[[], tuple[str, str]]) -> None:
        """Note where it would ask."""
        self.urls.append(urls())

    def take(self) -> Window | None:
        """Return the same window again and again."""
        if self.counts is None:
            return None
        stable, candidate = self.counts
        return Window(0.05, Sample(*stable), Sample(*candidate), "stream")

    async def is_known(self, limit_s: float) -> bool:
        """Say at once."""
        return self.is_told

    def explained(self, verdict: Verdict) -> Verdict:
        """Add the obstacle."""
        reason = f"{verdict.reason} {self.obstacle}" if self.obstacle else verdict.reason
        return replace(verdict, reason=reason)

    def stop(self) -> None:
        """Note it."""
        self.is_stopped = True


class ReplayDouble:
    """Answers as `GoldenReplay` does: each window has these (requests, errors); without a candidate there is none."""

    def __init__(
        self, stable: tuple[int, int] = (50, 0), candidate: tuple[int, int] | None = (50, 0)
    ) -> None:
        self.counts = (stable, candidate)
        self.urls: list[tuple[str, str]] = []
        self.obstacle = ""

    async def run(self, stable_url: str, candidate_url: str, stop: asyncio.Event) -> Window | None:
        """Replays for as long as the users' window lasts."""
        self.urls.append((stable_url, candidate_url))
        await stop.wait()
        stable, candidate = self.counts
        if candidate is None:
            self.obstacle = "the store is away"
            return None
        return Window(0.05, Sample(*stable), Sample(*candidate), "replay")

    def stop(self) -> None:
        """Nothing is under way."""
