"""What a user of a running sandbox has in hand: Airflow's REST API, the bucket, the queue, kubectl, and clients."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from kubernetes import config as kubernetes_config
from kubernetes.client import ApiException, CustomObjectsApi

from slipway_core.errors import ServerUnavailableError
from slipway_core.record.arrivals import run_id_for
from slipway_core.record.events import Event
from slipway_core.record.fold import fold
from slipway_core.record.state import ReleaseState, release_report
from slipway_core.rollout import lease
from slipway_core.rollout.dialects.registry import observe
from slipway_core.rollout.observation import Observed
from slipway_digit_models.training import golden_set, train
from slipway_sandbox.demo.airflow_client import DagRun
from slipway_sandbox.demo.counts import Traffic
from slipway_sandbox.demo.records import Records
from slipway_sandbox.demo.traffic import TrafficClient
from slipway_sandbox.host.settings import SandboxSettings
from slipway_sandbox.load.clients import PROTOCOLS
from slipway_sandbox.services.object_store import READY_SUFFIX, client
from tests.support.e2e.airflow import Airflow

RELEASE_DAG = "model_release"
ROLLBACK_DAG = "model_rollback"
INTAKE_DAG = "model_intake"
REJECTION_DAG = "version_rejection"
FREEZE_DAG = "release_freeze"
GC_DAG = "repository_gc"
NAMESPACE = "models"
# A release takes three minutes beside all others on two cores; a step that is begun again once may take five more.
RELEASE_LIMIT_S = 600.0

_ISVC = ("serving.kserve.io", "v1beta1", NAMESPACE, "inferenceservices")
_LEASES = (lease.GROUP, lease.API_VERSION, NAMESPACE, lease.PLURAL)
# Each look costs Airflow's server some of the time that the releases need.
_POLL_S = 2.0
_LOOKS_BEFORE_AN_ANSWER = 3

Found = TypeVar("Found")


class StoppedError(Exception):
    """The session ends before the story does."""


class StoryError(AssertionError):
    """Something that a story waits for did not happen; the message names it and what was there instead."""


@dataclass(frozen=True)
class Ended:
    """A release that has ended: its run, and what its record says."""

    run: DagRun
    events: Sequence[Event]
    state: ReleaseState

    @property
    def report(self) -> dict[str, Any]:
        """Its entry of the report."""
        return release_report(self.state)

    def times(self, kind: str) -> list[datetime]:
        """When the events of a kind happened, UTC."""
        return [event.at for event in self.events if event.kind == kind]

    def stage(self, name: str) -> str | None:
        """Return how a stage ended; None where it never began."""
        return next((stage.outcome for stage in self.state.stages if stage.name == name), None)


class RunningSandbox:
    """One sandbox, as its users see it. Used by several threads at once; `colleague` is a second person.

    :param stop: ends every wait; None: one of its own.
    """

    def __init__(self, settings: SandboxSettings, stop: threading.Event | None = None) -> None:
        self.settings = settings
        self.airflow = Airflow(settings.airflow_url, settings.airflow_user, settings.airflow_password)
        self.colleague = Airflow(settings.airflow_url, settings.airflow_colleague, settings.airflow_password)
        self.s3 = client(settings, "s3")
        self.stop = stop or threading.Event()
        self._sqs = client(settings, "sqs")
        self._cluster = CustomObjectsApi(
            kubernetes_config.new_client_from_config(config_file=str(settings.kubeconfig))
        )

    @property
    def releases(self) -> Path:
        """The folder of the release files, which the sandbox got at its start."""
        return Path(os.environ["SLIPWAY_RELEASES_DIR"])

    # --- waiting ---

    def wait(self, look: Callable[[], Found | None], what: str, limit_s: float = RELEASE_LIMIT_S) -> Found:
        """Look until something is found.

        A server that is busy is asked again. Raises StoryError after `limit_s` seconds, StoppedError at the
        session's end.
        """
        deadline, trouble = time.monotonic() + limit_s, ""
        while not self.stop.wait(_POLL_S):
            try:
                if (found := look()) is not None:
                    return found
            except ServerUnavailableError as error:
                trouble = f" Last: {error}"
            if time.monotonic() > deadline:
                raise StoryError(f"{what}: not so after {limit_s:.0f} s.{trouble}")
        raise StoppedError(what)

    # --- what training and people do ---

    def land(
        self,
        model: str,
        version: int,
        *,
        recipe: int | None = None,
        start: str = "by_hand",
        files: Mapping[str, bytes] | None = None,
    ) -> Callable[[], None]:
        """Leave a version in the bucket, `files` or what version `recipe` of the demo is made of; `ready.json` last.

        Returns what announces it once more, by the same `ready.json`.
        """
        files = _artifacts(recipe or version) if files is None else files
        ready = {
            "model": model,
            "version": version,
            "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
            "start": start,
        }
        for name, content in files.items():
            self.s3.put_object(
                Bucket=self.settings.bucket, Key=f"incoming/{model}/{version}/{name}", Body=content
            )

        def announce() -> None:
            self.s3.put_object(
                Bucket=self.settings.bucket,
                Key=f"incoming/{model}/{version}/{READY_SUFFIX}",
                Body=json.dumps(ready).encode(),
            )

        announce()
        return announce

    def run_id(self, model: str, version: int) -> str:
        """Return the id of the run that intake starts for the ready.json that lies there."""
        key = f"incoming/{model}/{version}/{READY_SUFFIX}"
        body = self.s3.get_object(Bucket=self.settings.bucket, Key=key)["Body"].read()
        return run_id_for(model, version, body)

    def land_unheard(self, model: str, version: int, *, recipe: int) -> None:
        """Leave a version that starts by itself, while the bucket tells nobody."""
        bucket = self.settings.bucket
        configuration = self.s3.get_bucket_notification_configuration(Bucket=bucket)
        configuration.pop("ResponseMetadata", None)
        self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
        try:
            self.land(model, version, recipe=recipe, start="automatic")
        finally:
            self.s3.put_bucket_notification_configuration(
                Bucket=bucket, NotificationConfiguration=configuration
            )

    def send_message(self, body: str) -> None:
        """Put a message into the queue in which the bucket announces versions."""
        self._sqs.send_message(QueueUrl=self.settings.queue_url, MessageBody=body)

    def start(self, model: str, version: int, **form: Any) -> str:
        """Start a release as the UI's form does; returns its run id."""
        conf = {"model": model, "version": version, **form}
        return self.airflow.start_run(RELEASE_DAG, conf).run_id

    def answer_when_asked(self, run_id: str, option: str) -> None:
        """Answer as a person would, when the question has stood there for some looks, and wait for the end.

        An answer within the blink of an eye crosses Airflow's own note that the task has paused; then the task is
        taken for dead and asks again.
        """
        looks = 0

        def answered() -> DagRun | None:
            nonlocal looks
            looks = looks + 1 if self._is_asking(run_id) else 0
            if looks == _LOOKS_BEFORE_AN_ANSWER:
                self.airflow.answer(RELEASE_DAG, run_id, "rollout.approve", option)
            return finished(self.run(run_id))

        self.wait(answered, f"{run_id} is answered and ends")

    def await_question(
        self, run_id: str, *, dag_id: str = RELEASE_DAG, task_id: str = "rollout.approve"
    ) -> None:
        """Wait until the run's question to a person has stood there for some looks."""
        looks = 0

        def is_asked() -> bool | None:
            nonlocal looks
            looks = looks + 1 if self._is_asking(run_id, dag_id, task_id) else 0
            return looks >= _LOOKS_BEFORE_AN_ANSWER or None

        self.wait(is_asked, f"{run_id} asks a person")

    def roll_back(self, model: str, version: int, reason: str) -> DagRun:
        """Go back to a version by the form of model_rollback, and wait for the end."""
        return self.filled_in(ROLLBACK_DAG, {"model": model, "version": version, "reason": reason})

    def filled_in(self, dag_id: str, form: Mapping[str, Any], *, by: Airflow | None = None) -> DagRun:
        """Start a run as the UI's form does, and wait for its end.

        :param by: whose form it is; None: the user's own.
        """
        run_id = (by or self.airflow).start_run(dag_id, form).run_id
        return self.wait(lambda: finished(self.airflow.run(dag_id, run_id)), f"{run_id} of {dag_id} ends")

    def patch_service(self, model: str, body: Mapping[str, Any]) -> None:
        """Change an InferenceService as `kubectl patch` does."""
        self._cluster.patch_namespaced_custom_object(*_ISVC, model, dict(body))

    # --- what came of it ---

    def unreject(self, model: str, version: int, reason: str, *, by: Airflow | None = None) -> DagRun:
        """Let a rejected version be released again; return the run when it has ended."""
        form = {"model": model, "version": version, "action": "unreject", "reason": reason}
        return self.filled_in(REJECTION_DAG, form, by=by)

    def run(self, run_id: str) -> DagRun | None:
        """Return a release's run; None where there is none of that id."""
        return self.airflow.run(RELEASE_DAG, run_id)

    def is_quiet(self, run_id: str, dag_id: str = RELEASE_DAG) -> bool | None:
        """Return True when no task of the run is at work, or about to be; None otherwise."""
        tasks = self.airflow.task_runs(dag_id, run_id)
        return all(task.state in _ENDED for task in tasks) or None

    def ended(self, model: str, version: int, run_id: str, limit_s: float = RELEASE_LIMIT_S) -> Ended:
        """Wait for the run to end; return it with its record. StoryError tells how far its tasks are."""
        try:
            run = self.wait(
                lambda: finished(self.run(run_id)), f"{run_id} of {model} {version} ends", limit_s
            )
            # A run that is marked as failed is `failed` at once, while its teardowns still work.
            self.wait(lambda: self.is_quiet(run_id), f"every task of {run_id} ends", limit_s)
        except StoryError as error:
            tasks = [f"{task.task_id} {task.state}" for task in self.airflow.task_runs(RELEASE_DAG, run_id)]
            raise StoryError(f"{error} Its tasks: {', '.join(tasks)}") from None
        events = self.events(model, version)
        if not events:
            raise StoryError(f"run {run_id} ended {run.state} and left no record")
        return Ended(run, events, fold(events))

    def release(self, model: str, version: int, *, recipe: int | None = None, **form: Any) -> Ended:
        """Land a version, release it by hand, and wait for the end."""
        self.land(model, version, recipe=recipe)
        return self.ended(model, version, self.start(model, version, **form))

    def events(self, model: str, version: int) -> list[Event]:
        """Return a version's record as it is now."""
        return Records(self.s3, self.settings.bucket).events(model, version)

    def await_event(
        self, model: str, version: int, kind: str, *, limit_s: float = RELEASE_LIMIT_S, **least: int
    ) -> Event:
        """Wait for an event of a kind, with at least these numbers in it."""

        def look() -> Event | None:
            for event in self.events(model, version):
                if event.kind == kind and all(
                    event.data.to_document().get(key, 0) >= value for key, value in least.items()
                ):
                    return event
            return None

        return self.wait(look, f"{kind} {least or ''} of {model} {version}", limit_s)

    def service(self, model: str) -> Observed | None:
        """Return the InferenceService as it is now; None where there is none."""
        try:
            return observe(self._cluster.get_namespaced_custom_object(*_ISVC, model))
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def lease(self, model: str) -> lease.Lease | None:
        """Return the lease of the canary on a model; None where there is none."""
        try:
            found = self._cluster.get_namespaced_custom_object(*_LEASES, lease.lease_name(model))
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return lease.parse_lease(found)

    def keys(self, prefix: str) -> list[str]:
        """Return the keys in the bucket below a prefix."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.settings.bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def read(self, key: str) -> bytes:
        """Return an object's bytes."""
        body: bytes = self.s3.get_object(Bucket=self.settings.bucket, Key=key)["Body"].read()
        return body

    def task_logs(self, dag_id: str, task_id: str, run_id: str = "*") -> str:
        """Return everything that a task has logged, in one run or in all runs of its DAG."""
        folder = self.settings.log_dir / "airflow"
        found = sorted(folder.glob(f"dag_id={dag_id}/run_id={run_id}/task_id={task_id}/*.log"))
        return "\n".join(path.read_text(errors="replace") for path in found)

    # --- clients ---

    def traffic(self, model: str, rate_rps: float, protocols: Collection[str] = PROTOCOLS) -> TrafficClient:
        """Make clients that ask the model all the time; a context manager."""
        return TrafficClient(
            port=self.settings.ports.ingress,
            authority=self.settings.service_host(model, NAMESPACE),
            model=model,
            rate_rps=rate_rps,
            output=Path(self.settings.root) / "traffic" / f"{model}.jsonl",
            sandbox_root=self.settings.root,
            protocols=protocols,
        )

    def await_answers(self, traffic: TrafficClient, more: int = 2) -> Traffic:
        """Wait until the clients have counted for so many seconds more; return what they counted."""
        wanted = len(traffic.traffic().snapshots) + more

        def look() -> Traffic | None:
            counted = traffic.traffic()
            return counted if len(counted.snapshots) >= wanted else None

        return self.wait(look, f"answers to the clients in {traffic.output.name}", 120)

    def _is_asking(self, run_id: str, dag_id: str = RELEASE_DAG, task_id: str = "rollout.approve") -> bool:
        """Whether the run waits for a person."""
        tasks = self.airflow.task_runs(dag_id, run_id)
        return any(task.task_id == task_id and task.state == "awaiting_input" for task in tasks)


_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def finished(run: DagRun | None) -> DagRun | None:
    """Return the run if it is over; None otherwise."""
    return run if run is not None and run.is_finished else None


@cache
def _artifacts(recipe: int) -> dict[str, bytes]:
    """What training leaves for a version of the demo, without `ready.json`."""
    return {"model.onnx": train(recipe).onnx, "golden.npz": golden_set(recipe)}
