"""A lab with a guard, two models with users, and releases in it, and the faults that are done to them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from unittest.mock import patch
from urllib.error import HTTPError, URLError

from benchmarks.chaos.attempts import Attempts, context
from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.faults import Faults
from benchmarks.chaos.gates import LOOPBACK, ClusterGate, Gate, Loop
from benchmarks.chaos.job import Job
from benchmarks.chaos.plan import DIALECTS, Plan
from benchmarks.chaos.run import ChaosRun, Due
from benchmarks.chaos.served import LEASE_S, Served
from slipway_core.errors import SlipwayError
from slipway_core.record.events import Event
from slipway_sandbox.cluster.kubeconfig import write_kubeconfig
from slipway_sandbox.lab.serving_stack import PARTS, Lab
from slipway_sandbox.load.answers import Answer
from slipway_sandbox.services.object_store import client

_END_LIMIT_S = 150.0
_REST_LIMIT_S = 45.0
_SAFE_LIMIT_S = LEASE_S + 15.0
_COME_UP_LIMIT_S = 90.0
_AFTER_LIMIT_S = 30.0
_AFTER = 60
_POLL_S = 0.05


class FaultLab:
    """A context manager: inside the `with` a stable version in each dialect serves users, and releases can be run.

    Use it from the main thread, as the lab in it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        try:
            self._enter()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _enter(self) -> None:
        self.lab = self._stack.enter_context(Lab(self.root, (*PARTS, "guard")))
        settings = self.lab.settings
        self._loop = Loop()
        self._stack.callback(self._loop.close)
        self._attempts: Attempts | None = None
        self._cluster = ClusterGate(self._loop, settings.cluster_url, self._kill_task)
        self._stack.callback(self._cluster.close)
        self._store = Gate(self._loop, settings.ports.object_store, self._kill_task)
        self._metrics = Gate(self._loop, settings.ports.router_admin)
        self._reach = self._environment()
        self._stack.enter_context(patch.dict(os.environ, self._reach))
        self._processes = context()
        # The first one waits until Airflow is imported; no run shall.
        first = self._processes.Process(target=time.time)
        first.start()
        self._releases_dir = settings.run_dir / "release-files"
        self._releases_dir.mkdir()
        s3 = client(settings, "s3")
        self._served = {dialect: Served(self.lab, s3, dialect, self._releases_dir) for dialect in DIALECTS}
        for served in self._served.values():
            served.deploy()
        for served in self._served.values():
            self._wait(served.is_at_rest, f"the first version of {served.model}", _COME_UP_LIMIT_S)
            self._stack.enter_context(served.load())
        first.join()

    def _environment(self) -> dict[str, str]:
        """The release's own: it reaches everything else by the gates only."""
        settings = self.lab.settings
        kubeconfig = self.root / "gate-kubeconfig"
        write_kubeconfig(
            kubeconfig, f"http://{LOOPBACK}:{self._cluster.port}", settings.secrets.cluster_token
        )
        found = dict(self.lab.environment(self.root / "airflow"))
        aws = json.loads(found["AIRFLOW_CONN_AWS_DEFAULT"])
        aws["extra"]["endpoint_url"] = f"http://{LOOPBACK}:{self._store.port}"
        metrics = json.loads(found["AIRFLOW_CONN_SLIPWAY_METRICS"])
        metrics["port"] = self._metrics.port
        kubernetes = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
        return found | {
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(aws),
            "AIRFLOW_CONN_SLIPWAY_METRICS": json.dumps(metrics),
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(kubernetes),
            # So that the lease outlasts a take-over.
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "4",
            "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
        }

    # --- one run ---

    def run(self, plan: Plan) -> tuple[Evidence, ChaosRun]:
        """Runs one release under the plan's faults, until the cluster has come to rest, or should have."""
        served = self._served[plan.dialect]
        before, made = served.look(), served.revisions()
        version, uri = served.publish(plan.error_percent, plan.seed)
        served.answers()
        run = ChaosRun(plan)
        stable, stable_uri = before.latest_created, before.storage_uri
        run.tell(f"{uri} fails {plan.error_percent} %; stable is {stable_uri} ({stable}), {plan.dialect}")
        candidate = served.candidate(before, uri)
        seen = Evidence(plan, float(LEASE_S), stable, stable_uri, uri, candidate)
        self._cluster.begin(plan.faults, run.happen)
        self._store.begin(plan.faults, run.happen)
        if any(fault.kind == "clock_skewed" for fault in plan.faults):
            run.happened.append("clock_skewed")
        folder = self.lab.settings.run_dir / "releases" / served.model / str(version)
        folder.mkdir(parents=True)
        bucket, releases_dir = self.lab.settings.bucket, str(self._releases_dir)
        job = Job(served.model, version, bucket, releases_dir, self._reach)
        self._attempts = attempts = Attempts(self._processes, job, folder, plan.back_after_s, run.tell)
        faults = Faults(self.lab, self._metrics, self._store, self._kill_task, served, stable, run)
        run.due = [
            Due(run.began + fault.at_s, lambda fault=fault: faults.inject(fault))  # type: ignore[misc]
            for fault in plan.faults
            if not fault.nth and fault.kind != "clock_skewed"
        ]
        self._follow(run, seen, attempts, served)
        seen.settled = self._until(served.is_at_rest, _REST_LIMIT_S)
        self._conclude(run, seen, served)
        self._ask_the_release(run, seen, attempts, folder)
        self._ask_the_world(run, seen, served, version, made)
        run.seconds = time.time() - run.began
        self._attempts = None
        return seen, run

    def _follow(self, run: ChaosRun, seen: Evidence, attempts: Attempts, served: Served) -> None:
        """Does what is due until the release has ended; a lost one is called back when the users are safe."""
        limit = run.began + _END_LIMIT_S
        while not attempts.ended.is_set() and time.time() < limit:
            run.do_due()
            if attempts.is_lost and not run.due:
                seen.lost_safe = self._until(served.users_are_safe, _SAFE_LIMIT_S)
                run.tell(f"the lost release is called back; users are safe: {seen.lost_safe}")
                attempts.call_back()
            time.sleep(_POLL_S)
        seen.finished = attempts.ended.is_set()
        # What has not happened by now does not; what was broken is mended.
        run.due = [one for one in run.due if one.mends]
        while run.due:
            run.do_due()
            time.sleep(_POLL_S)

    def _conclude(self, run: ChaosRun, seen: Evidence, served: Served) -> None:
        """Waits for answers that tell who serves the users now that all is at rest."""
        rest = time.time()
        run.tell("at rest" if seen.settled else "not at rest in time")
        found = served.answers()

        def after() -> list[Answer]:
            return [one for one in found if one.sent > rest]

        def enough() -> bool:
            found.extend(served.answers())
            return len(after()) >= _AFTER

        self._until(enough, _AFTER_LIMIT_S)
        seen.answers, seen.after = found, after()
        seen.excuses, seen.outages = run.excuses, run.outages

    @staticmethod
    def _ask_the_release(run: ChaosRun, seen: Evidence, attempts: Attempts, folder: Path) -> None:
        database = json.loads((folder / "airflow.json").read_text(encoding="utf-8"))
        for at, text in database["log"]:
            run.timeline.append((at, text))
        seen.tries = 1 + attempts.kills + sum("tried again" in text for _, text in database["log"])
        seen.crashed, seen.failed_tasks = attempts.crashed, database["failed"]

    def _ask_the_world(
        self, run: ChaosRun, seen: Evidence, served: Served, version: int, made: Mapping[str, int]
    ) -> None:
        observed = served.look()
        seen.uri, seen.percent = observed.storage_uri, observed.canary_percent
        seen.traffic = {name: share for name, share in observed.traffic.items() if share}
        seen.new_revisions = sum(
            max(0, number - made.get(name, 0)) for name, number in served.revisions().items()
        )
        seen.lease_left, seen.lock_left = served.has_lease(), served.has_lock()
        seen.writes, seen.events = tuple(self._cluster.writes), served.record(version)
        run.timeline += [
            (event.at.timestamp(), f"record {event.seq} {event.kind} {_brief(event)}")
            for event in seen.events
            if event.kind != "window_judged"
        ]
        run.timeline += [
            (write.at, f"{write.method} {write.resource} {write.status} {json.dumps(write.body)[:240]}")
            for write in seen.writes
        ]
        run.timeline.sort()

    def _kill_task(self, stays_dead: bool) -> None:
        if self._attempts is not None:
            self._attempts.kill(stays_dead)

    # --- waiting ---

    def _until(self, condition: Callable[[], bool], within_s: float) -> bool:
        limit = time.monotonic() + within_s
        while time.monotonic() < limit:
            try:
                if condition():
                    return True
            except (HTTPError, URLError, OSError):
                pass  # the cluster is away
            time.sleep(_POLL_S)
        return False

    def _wait(self, condition: Callable[[], bool], what: str, within_s: float) -> None:
        if not self._until(condition, within_s):
            raise SlipwayError(
                f"the chaos suite's laboratory does not come up: {what}", expected=f"within {within_s:.0f} s"
            )


def _brief(event: Event) -> str:
    return " ".join(
        f"{key}={value}" for key, value in event.data.to_document().items() if key in _SHOWN_FIELDS
    )[:240]


_SHOWN_FIELDS = ("weight", "reason", "phase", "stage", "outcome", "by", "verdict")
