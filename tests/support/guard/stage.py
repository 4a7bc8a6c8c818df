"""A canary in an emulated cluster, and guards as processes of their own that watch it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.rest import ApiException
from urllib3.exceptions import HTTPError

from slipway_core.rollout import lease
from slipway_core.rollout.lease import Lease, lease_manifest, lease_name, parse_lease, renewal
from slipway_core.rollout.next_action import (
    Done,
    Goal,
    Observed,
    Patch,
    StartCanary,
    next_action,
)
from tests.support.cluster.emulator import ROOT, Emulator
from tests.support.guard.guarded_canary import (
    CANDIDATE_URI,
    NAME,
    RELEASE,
    STABLE_URI,
    KnativeController,
    service_manifest,
)
from tests.support.rollout.reading import observe
from tests.support.waiting import wait_until

SERVICES = ("serving.kserve.io", "v1beta1", "inferenceservices")
LEASES = (lease.GROUP, lease.API_VERSION, lease.PLURAL)
KNATIVE_SERVICES = ("serving.knative.dev", "v1", "services")
REVISIONS = ("serving.knative.dev", "v1", "revisions")
POLL_S = 0.2
CONTROLLER_PAUSE_S = 0.05
# What a busy machine may add to what a test waits for.
SLACK_S = 15.0
Kind = tuple[str, str, str]


class Stage:
    """The InferenceService `digits` in a namespace of its own: version 2 is live, version 3 can get a canary.

    KServe is a thread here that knows its state machine and nothing of servers. `skew` is how far the release's
    clock is from everybody else's.
    """

    def __init__(self, emulator: Emulator, namespace: str, *, skew: timedelta = timedelta()) -> None:
        self.namespace = namespace
        self._emulator = emulator
        self._skew = skew
        self.custom = client.CustomObjectsApi(emulator.api_client())
        self._stop = threading.Event()
        self._controller = threading.Thread(target=self._reconcile, daemon=True)
        self._create(SERVICES, service_manifest(NAME, namespace))
        self._controller.start()
        wait_until(lambda: self.observed().alone(f"{NAME}-predictor-00001"), "the first version is live")

    def close(self) -> None:
        """End the controller."""
        self._stop.set()
        self._controller.join(10)

    # --- what a release does ---

    def start_canary(self, weight: int = 20, *, lease_s: int | None = 2) -> None:
        """Take the lease (none for None), and give version 3 its first percent."""
        if lease_s is not None:
            manifest = lease_manifest(
                NAME,
                self.namespace,
                holder=RELEASE,
                now=self._now(),
                lease_s=lease_s,
                candidate_uri=CANDIDATE_URI,
                stable_uri=STABLE_URI,
            )
            self._create(LEASES, manifest)
        self.drive(StartCanary(CANDIDATE_URI, weight, release_id=RELEASE, version=3))

    def renew(self, seen: Lease | None = None, *, lease_s: int = 0) -> bool:
        """Renew the lease as it was seen (or is), perhaps for longer than before; False: a conflict."""
        seen = seen or self.lease()
        assert seen is not None
        return self.patch(LEASES, seen.name, renewal(seen, self._now(), lease_s=lease_s))

    def drive(self, goal: Goal) -> None:
        """Take turns until the goal is reached."""

        def turn() -> bool:
            action = next_action(goal, self.observed())
            if isinstance(action, Patch):
                self.patch(SERVICES, NAME, action.body)
            return isinstance(action, Done)

        wait_until(turn, f"{goal} is reached")

    def patch(self, kind: Kind, name: str, body: Mapping[str, Any]) -> bool:
        """A merge patch; False: a conflict."""
        group, version, plural = kind
        try:
            self.custom.patch_namespaced_custom_object(
                group, version, self.namespace, plural, name, dict(body)
            )
        except ApiException as error:
            if error.status != 409:
                raise
            return False
        return True

    def _now(self) -> datetime:
        return datetime.now(UTC) + self._skew

    # --- what is there ---

    def observed(self) -> Observed:
        """The InferenceService, and what lies behind it."""
        observed = observe(self._get(SERVICES, NAME))
        try:
            behind = self._get(KNATIVE_SERVICES, f"{NAME}-predictor")
            made = [self._get(REVISIONS, name) for name in observed.named_revisions]
        except ApiException as error:
            if error.status != 404:
                raise
            return observed
        return observe(self._get(SERVICES, NAME), behind=behind, revisions=made)

    def lease(self) -> Lease | None:
        """The lease."""
        try:
            return parse_lease(self._get(LEASES, lease_name(NAME)))
        except ApiException as error:
            if error.status != 404:
                raise
            return None

    def candidate_share(self) -> int:
        """The percent of users that are led to version 3."""
        observed = self.observed()
        return 0 if observed.storage_uri != CANDIDATE_URI else observed.share(observed.latest_created)

    def events(self) -> list[Any]:
        """What people see at the InferenceService, as `kubectl describe` asks for it."""
        selector = f"involvedObject.kind=InferenceService,involvedObject.name={NAME}"
        core = client.CoreV1Api(self._emulator.api_client())
        return list(core.list_namespaced_event(self.namespace, field_selector=selector).items)

    def wait_for_weight_0(self, limit_s: float) -> float:
        """Wait until no user is led to version 3; returns when that was seen, on the monotonic clock."""
        wait_until(lambda: self.candidate_share() == 0, "weight 0", limit_s)
        return time.monotonic()

    def delete_lease(self) -> None:
        """Somebody deletes the lease."""
        group, version, plural = LEASES
        self.custom.delete_namespaced_custom_object(group, version, self.namespace, plural, lease_name(NAME))

    # --- the cluster ---

    def _get(self, kind: Kind, name: str) -> dict[str, Any]:
        group, version, plural = kind
        return dict(self.custom.get_namespaced_custom_object(group, version, self.namespace, plural, name))

    def _create(self, kind: Kind, body: dict[str, Any]) -> None:
        group, version, plural = kind
        self.custom.create_namespaced_custom_object(group, version, self.namespace, plural, body)

    def _reconcile(self) -> None:
        """KServe: reads the spec and writes the status, again and again, whether the API answers or not."""
        api = client.CustomObjectsApi(self._emulator.api_client())
        group, version, plural = SERVICES
        controller, written = KnativeController(), None
        while not self._stop.wait(CONTROLLER_PAUSE_S):
            with contextlib.suppress(ApiException, HTTPError):
                service = api.get_namespaced_custom_object(group, version, self.namespace, plural, NAME)
                status = controller.status(service)
                if status != written:
                    write_behind(api, *controller.behind(service))
                    body = {"status": status}
                    api.patch_namespaced_custom_object_status(
                        group, version, self.namespace, plural, NAME, body
                    )
                    written = status


class GuardProcess:
    """`python -m slipway_guard` with a kubeconfig; its log is read back line by line."""

    def __init__(self, kubeconfig: Path, folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "guard.log"
        self.alive_file = folder / "alive"
        command = [sys.executable, "-m", "slipway_guard", "--kubeconfig", str(kubeconfig)]
        command += ["--poll-s", str(POLL_S), "--alive-file", str(self.alive_file), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "include")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def events(self) -> list[str]:
        """The events of its log, in their order."""
        return [line["event"] for line in self.lines()]

    def lines(self) -> list[dict[str, Any]]:
        """Its log; a last line that is not whole yet is left out."""
        text = self._log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wait_for(self, event: str, limit_s: float = SLACK_S) -> None:
        """Wait until it has logged an event."""

        def logged() -> bool:
            assert self.is_running or event in self.events(), self._log.read_text(encoding="utf-8")
            return event in self.events()

        wait_until(logged, f"the guard logs {event}", limit_s)

    def stop(self) -> int:
        """End it as a cluster does; returns its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait(SLACK_S)

    def wait(self, limit_s: float = SLACK_S) -> int:
        """Wait until it ends by itself; returns its exit code."""
        return self._process.wait(limit_s)


def write_behind(
    api: client.CustomObjectsApi, service: dict[str, Any], revisions: list[dict[str, Any]]
) -> None:
    """Have a Knative Service and its revisions in the cluster, as KServe and Knative would."""
    for plural, one in (*(("revisions", one) for one in revisions), ("services", service)):
        namespace, name = one["metadata"]["namespace"], one["metadata"]["name"]
        group, version, _ = KNATIVE_SERVICES
        where = (group, version, namespace, plural)
        try:
            stored = api.create_namespaced_custom_object(*where, one)
        except ApiException as error:
            if error.status != 409:
                raise
            patch = {"metadata": {"labels": one["metadata"].get("labels", {})}, "spec": one["spec"]}
            stored = api.patch_namespaced_custom_object(*where, name, patch)
        status = {**one["status"], "observedGeneration": stored["metadata"]["generation"]}
        api.patch_namespaced_custom_object_status(*where, name, {"status": status})
