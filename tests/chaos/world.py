"""A lab with a guard, live traffic and a release in it, and the faults that are done to them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from include.model_release.errors import SlipwayError
from include.model_release.record import Event
from include.model_release.rollout import Observed, inference_service_manifest, observe
from include.model_release.spec import parse_release_spec
from include.sandbox.cluster.kubeconfig import write_kubeconfig
from include.sandbox.lab.answers import Answer
from include.sandbox.lab.load import OpenLoad
from include.sandbox.lab.models import publish
from include.sandbox.lab.world import PARTS, Lab
from include.sandbox.object_store import client
from tests.chaos.attempts import Attempts, context
from tests.chaos.evidence import Evidence, Span
from tests.chaos.gates import LOOPBACK, ClusterGate, Gate, Loop
from tests.chaos.plan import Fault, Plan

MODEL, NAMESPACE = "moody", "models"
RATE_RPS = 60.0
LEASE_S = 15
SPEC = f"""
model: {MODEL}
source: {{}}
rollout:
  steps: [{{weight: 20, bake_s: 2}}, {{weight: 60, bake_s: 2}}]
  window_s: 1
  max_bake_s: 20
  ready_timeout_s: 60
  lease_s: {LEASE_S}
  # A busy machine makes latencies that say nothing; errors are what candidates differ in here.
  analysis: {{error_margin_percent: 5, latency_margin_percent: 900, minimum_candidate_requests: 10}}
"""

_SERVICES = f"serving.kserve.io/v1beta1/namespaces/{NAMESPACE}/inferenceservices"
_LEASES = f"coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_END_LIMIT_S = 150.0
_REST_LIMIT_S = 45.0
_COME_UP_LIMIT_S = 90.0
_AFTER = 60
_POLL_S = 0.05
# How long a server that was killed may need until the cluster has started it again, and clients are connected again.
_ROUTER_BACK_S, _TRITON_BACK_S, _CLUSTER_BACK_S = 6.0, 12.0, 15.0


@dataclass
class Run:
    """One run as it happens: what is due when, and what was seen."""

    plan: Plan
    began: float
    timeline: list[tuple[float, str]] = field(default_factory=list)
    due: list[tuple[float, str, Callable[[], None]]] = field(default_factory=list)
    excused: list[Span] = field(default_factory=list)
    outages: list[Span] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def tell(self, text: str) -> None:
        """Notes it with the time."""
        self.timeline.append((time.time(), text))

    def happen(self, fault: Fault) -> None:
        """Notes that a fault has taken place."""
        self.happened.append(fault.kind)
        self.tell(f"FAULT {fault}")


class World:
    """A context manager: inside the `with` a stable version serves users, and releases can be run.

    Use it from the main thread, as the lab in it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._spec = parse_release_spec(SPEC, f"{MODEL}.yaml")

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
        self._stack.enter_context(patch.dict(os.environ, self._environment()))
        self._processes = context()
        # The first one waits until Airflow is imported; no run shall.
        first = self._processes.Process(target=time.time)
        first.start()
        first.join()
        self._s3 = client(settings, "s3")
        self._version = 0
        self._offset = 0
        _, uri = self._publish(0.0, 0)
        manifest = inference_service_manifest(self._spec, uri, release_id="first", version=1)
        self._ask("POST", _SERVICES, manifest)
        self._wait(lambda: self._is_at_rest(uri), "the first version", _COME_UP_LIMIT_S)
        load = OpenLoad(
            port=settings.ports.ingress,
            authority=settings.service_host(MODEL, NAMESPACE),
            model=MODEL,
            rate_rps=RATE_RPS,
            output=self.root / "answers.jsonl",
            lab_root=self.root,
        )
        self._load = self._stack.enter_context(load)

    def _environment(self) -> dict[str, str]:
        """The release's own: it reaches the world by the gates only."""
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
        }

    # --- one run ---

    def run(self, plan: Plan) -> tuple[Evidence, Run]:
        """Runs one release under the plan's faults, until the world has come to rest, or should have."""
        before = self._look()
        version, uri = self._publish(plan.error_percent, plan.seed)
        self._read_answers()
        run = Run(plan, time.time())
        run.tell(
            f"{uri} fails {plan.error_percent} %; stable is {before.storage_uri} ({before.latest_created})"
        )
        seen = Evidence(
            plan,
            float(LEASE_S),
            stable=before.latest_created,
            stable_uri=before.storage_uri,
            candidate_uri=uri,
        )
        self._cluster.begin(plan.faults, run.happen)
        self._store.begin(plan.faults, run.happen)
        if any(fault.kind == "clock_skewed" for fault in plan.faults):
            run.happened.append("clock_skewed")
        folder = self.lab.settings.run_dir / "releases" / str(version)
        folder.mkdir(parents=True)
        self._attempts = attempts = Attempts(
            self._processes, self._ticket(version, before), folder, plan.back_after_s, run.tell
        )
        run.due = [
            (run.began + fault.at_s, fault.kind, lambda fault=fault: self._inject(fault, run, seen))  # type: ignore[misc]
            for fault in plan.faults
            if not fault.nth and fault.kind != "clock_skewed"
        ]
        self._follow(run, seen, attempts)
        seen.settled = self._until(lambda: self._is_at_rest(None), _REST_LIMIT_S)
        self._conclude(run, seen, attempts, before, folder, version)
        return seen, run

    def _follow(self, run: Run, seen: Evidence, attempts: Attempts) -> None:
        """Does what is due until the release has ended; a lost one is called back when the users are safe."""
        limit = run.began + _END_LIMIT_S
        while not attempts.ended.is_set() and time.time() < limit:
            self._do_due(run)
            if attempts.is_lost and not run.due:
                seen.lost_safe = self._until(self._users_are_safe, LEASE_S + 15.0)
                run.tell(f"the lost release is called back; users are safe: {seen.lost_safe}")
                attempts.call_back()
            time.sleep(_POLL_S)
        seen.finished = attempts.ended.is_set()
        # What has not happened by now does not; what was broken is mended.
        run.due = [one for one in run.due if one[1] == "mend"]
        while run.due:
            self._do_due(run)
            time.sleep(_POLL_S)

    @staticmethod
    def _do_due(run: Run) -> None:
        for one in sorted(run.due, key=lambda due: due[0]):
            if one[0] <= time.time():
                run.due.remove(one)
                one[2]()

    def _conclude(
        self, run: Run, seen: Evidence, attempts: Attempts, before: Observed, folder: Path, version: int
    ) -> None:
        # What may fail still, as clients find their way back to a router, is not asked.
        rest = max([time.time(), *(span.end for span in run.excused)])
        run.tell("at rest" if seen.settled else "not at rest in time")
        found = list(self._read_answers())

        def enough() -> bool:
            found.extend(self._read_answers())
            return sum(one.sent > rest for one in found) >= _AFTER

        self._until(enough, rest - time.time() + 15.0)
        observed = self._look()
        seen.answers, seen.after = found, [one for one in found if one.sent > rest]
        seen.writes = tuple(self._cluster.writes)
        seen.events = self._record(version)
        seen.excused, seen.outages = run.excused, run.outages
        seen.new_revisions = _number(observed.latest_created) - _number(before.latest_created)
        # The first new revision is the candidate's; a second one is the good version's.
        seen.candidates = {_revision(before.latest_created, 1)} if seen.new_revisions else set()
        seen.uri, seen.traffic, seen.percent = (
            observed.storage_uri,
            {name: share for name, share in observed.traffic.items() if share},
            observed.canary_percent,
        )
        seen.lease_left = bool(self._ask("GET", _LEASES)["items"])
        if seen.lease_left:
            run.tell("the lease of the release is still there")
        database = json.loads((folder / "airflow.json").read_text(encoding="utf-8"))
        for at, text in database["told"]:
            run.timeline.append((at, text))
        seen.tries = 1 + attempts.kills + sum("tried again" in text for _, text in database["told"])
        seen.gave_up, seen.kills, seen.crashed = (
            database["task"] == "gave_up",
            attempts.kills,
            attempts.crashed,
        )
        for event in seen.events:
            if event.kind != "window_judged":
                run.timeline.append(
                    (event.at.timestamp(), f"record {event.seq} {event.kind} {_brief(event)}")
                )
        for write in seen.writes:
            run.timeline.append(
                (write.at, f"{write.method} {write.resource} {write.status} {json.dumps(write.body)[:240]}")
            )
        run.timeline.sort()
        run.seconds = time.time() - run.began
        self._attempts = None

    # --- faults ---

    def _kill_task(self, stays_dead: bool) -> None:
        if self._attempts is not None:
            self._attempts.kill(stays_dead)

    def _inject(self, fault: Fault, run: Run, seen: Evidence) -> None:
        """Does a timed fault; what it breaks is mended by a later one of the run's due things."""
        now = time.time()
        match fault.kind:
            case "task_killed" | "task_lost":
                run.happen(fault)
                self._kill_task(fault.kind == "task_lost")
            case "metrics_away" | "store_away":
                run.happen(fault)
                gate = self._metrics if fault.kind == "metrics_away" else self._store
                gate.shut()
                run.due.append((now + fault.seconds, "mend", gate.open))
            case "cluster_killed" | "router_killed":
                run.happen(fault)
                part = fault.kind.removesuffix("_killed")
                self.lab.kill(part)
                run.due.append((now + fault.seconds, "mend", lambda: self._restart(part, now, run)))
            case _:
                self._kill_triton(fault, run, seen)

    def _restart(self, part: str, killed_at: float, run: Run) -> None:
        self.lab.start(part)
        back = time.time()
        run.tell(f"the {part} is back")
        excuse_s = _ROUTER_BACK_S if part == "router" else _CLUSTER_BACK_S
        run.excused.append(Span(killed_at - 0.2, back + excuse_s, part))
        if part == "cluster":
            run.outages.append(Span(killed_at, back, part))

    def _kill_triton(self, fault: Fault, run: Run, seen: Evidence) -> None:
        try:
            revision = seen.stable
            if fault.kind == "candidate_killed":
                revision = self._look().latest_created
                if revision == seen.stable:
                    return
            server = self.lab.triton_of(revision)
        except (SlipwayError, OSError):
            return  # it is not there yet, or not any more
        run.happen(fault)
        now = time.time()
        server.kill()
        run.excused.append(Span(now - 0.2, now + _TRITON_BACK_S, revision))

    # --- the world as it is ---

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        settings = self.lab.settings
        url = f"{settings.cluster_url}/apis/{path}"
        headers = {
            "Authorization": f"Bearer {settings.secrets.cluster_token}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(url, data=data, headers=headers, method=method), timeout=5) as answer:
            return json.load(answer)

    def _look(self) -> Observed:
        return observe(self._ask("GET", f"{_SERVICES}/{MODEL}"), ())

    def _is_at_rest(self, uri: str | None) -> bool:
        """Whether one revision, of the version asked for, has all users and nothing is under way."""
        observed = self._look()
        live = [name for name, share in observed.traffic.items() if share]
        return (
            observed.canary_percent is None
            and observed.caught_up
            and observed.ready
            and live == [observed.latest_created]
            and uri in (None, observed.storage_uri)
        )

    def _users_are_safe(self) -> bool:
        observed = self._look()
        live = [name for name, share in observed.traffic.items() if share]
        return observed.canary_percent in (None, 0) and observed.caught_up and len(live) == 1

    def _publish(self, error_percent: float, seed: int) -> tuple[int, str]:
        self._version += 1
        bucket = self.lab.settings.bucket
        uri = publish(self._s3, bucket, MODEL, self._version, error_percent=error_percent, seed=seed)
        return self._version, uri

    def _ticket(self, version: int, live: Observed) -> str:
        stable = {"version": int(live.storage_uri.split("/")[-2]), "storage_uri": live.storage_uri}
        return json.dumps(
            {
                "release_id": f"{MODEL}-{version}",
                "model": MODEL,
                "version": version,
                "bucket": self.lab.settings.bucket,
                "spec": self._spec.model_dump(mode="json"),
                "stable": stable,
            }
        )

    def _record(self, version: int) -> list[Event]:
        bucket, prefix = self.lab.settings.bucket, f"records/{MODEL}/{version}/"
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return [
            Event.from_bytes(self._s3.get_object(Bucket=bucket, Key=key)["Body"].read(), key) for key in keys
        ]

    def _read_answers(self) -> list[Answer]:
        """The answers since the last call."""
        with self._load.output.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [Answer(**json.loads(line)) for line in whole.splitlines()]

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
                f"the chaos suite's world does not come up: {what}", expected=f"within {within_s:.0f} s"
            )


def _number(revision: str) -> int:
    return int(revision.rpartition("-")[2])


def _revision(of: str, later: int) -> str:
    head, _, number = of.rpartition("-")
    return f"{head}-{int(number) + later:0{len(number)}d}"


def _brief(event: Event) -> str:
    return " ".join(f"{key}={value}" for key, value in event.data.items() if key in _TOLD)[:240]


_TOLD = ("weight", "reason", "phase", "stage", "outcome", "by", "verdict")
