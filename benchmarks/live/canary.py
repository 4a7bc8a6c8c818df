"""One model in a lab, and what a release does to it: deploy, one canary step with its judge, back to stable.

What is done is done by the release's own code, in this process. Import this module in `Lab.environment` only:
Airflow, which the hooks come from, reads its home when it is first imported.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.release_context import Connections, ReleaseContext
from slipway.release_run import ReleaseRun, StableVersion
from slipway.traffic.checkpoint import WatchState
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.reconciler import first_deploy, observe_service, reconcile
from slipway.traffic.rollback import Rollback
from slipway.triggers.canary import CanaryStepTrigger
from slipway_core.canary.judge import CanaryJudge
from slipway_core.errors import SlipwayError
from slipway_core.record.kinds import ReleaseStarted, RolledBack
from slipway_core.rollout.next_action import Goal, RollBack
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reconciler import Reconciliation
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec
from slipway_sandbox.lab.models import publish, requests
from slipway_sandbox.lab.serving_stack import Lab
from slipway_sandbox.load.open_load import START_LIMIT_S, OpenLoad
from slipway_sandbox.load.open_streams import OpenStreams
from slipway_sandbox.services.object_store import client

MODEL = "moody"
STABLE_VERSION = 1
DRIVE_LIMIT_S = 60.0


class LabTrigger(CanaryStepTrigger):
    """The trigger of a canary that no release has begun: there is no record to ask."""

    def _permit(self, parts: ReleaseContext) -> Callable[[int], None]:
        return lambda weight: None


@dataclass(frozen=True)
class StepEnd:
    """How a canary step ended: what the plan decided by which verdict, after how many windows.

    `candidate` is a revision. `decided_at` is when the last window was judged, `weight_0_at` when the traffic was
    first observed to be off the candidate (None where it was not taken back), both in unix seconds; `patches` is how
    often the InferenceService's spec was changed in between.
    """

    decision: str
    verdict: str
    reason: str
    candidate: str
    windows: int
    decided_at: float
    weight_0_at: float | None
    patches: int


def release_spec(
    weight: int, window_s: int, limit_s: int, *, mode: str = "Knative", drain_s: int | None = None
) -> ReleaseSpec:
    """Return a release file with one step, which lasts until `limit_s` unless the judge ends it before.

    All else that matters to the judge has its default.
    """
    drain = "" if drain_s is None else f"  drain_s: {drain_s}\n"
    return parse_release_spec(
        f"""
model: {MODEL}
source: {{}}
rollout:
  steps: [{{weight: {weight}, bake_s: {limit_s}}}]
  window_s: {window_s}
  max_bake_s: {limit_s}
  deployment_mode: {mode}
{drain}""",
        f"{MODEL}.yaml",
    )


class LabModel:
    """The model of a lab: version 1 is stable, others are published as they are needed."""

    def __init__(self, lab: Lab, spec: ReleaseSpec) -> None:
        self.spec = spec
        self.service = KServeHook(spec.rollout.inference_service, spec.rollout.namespace)
        self.lab = lab
        self._bucket = lab.settings.bucket
        self._s3 = client(lab.settings, "s3")
        self._next_version = STABLE_VERSION

    def publish(self, *, error_percent: float = 0.0, seed: int = 0) -> ReleaseRun:
        """Publish the next version; the release run is that of its release over version 1."""
        version, self._next_version = self._next_version, self._next_version + 1
        uri = publish(self._s3, self._bucket, MODEL, version, error_percent=error_percent, seed=seed)
        if version == STABLE_VERSION:
            self._stable_uri = uri
        stable = StableVersion(version=STABLE_VERSION, storage_uri=self._stable_uri)
        return ReleaseRun(
            release_id=f"{MODEL}-{version}",
            model=MODEL,
            version=version,
            bucket=self._bucket,
            spec=self.spec,
            stable=None if version == STABLE_VERSION else stable,
        )

    def load(self, rate_rps: float, name: str, *, start_limit_s: float = START_LIMIT_S) -> OpenLoad:
        """Return clients of the model; their answers are kept in the lab's folder, under this name."""
        return OpenLoad(
            requests(),
            port=self.lab.settings.ports.ingress,
            authority=self.lab.settings.service_host(MODEL, self.spec.rollout.namespace),
            model=MODEL,
            rate_rps=rate_rps,
            output=self.lab.root / "answers" / f"{name}.jsonl",
            sandbox_root=self.lab.root,
            start_limit_s=start_limit_s,
        )

    def open_streams(self, count: int) -> OpenStreams:
        """Return clients that keep so many gRPC streams open, and ask on them."""
        settings = self.lab.settings
        host = settings.service_host(MODEL, self.spec.rollout.namespace)
        port = settings.ports.ingress
        return OpenStreams(requests(), port, f"{host}:{port}", MODEL, count=count)

    def deploy_stable(self) -> None:
        """Publish version 1 and bring it live, with all users on it."""
        self.drive(first_deploy(self.publish()))

    def lease_holder(self, release_run: ReleaseRun) -> LeaseHolder:
        """Return the release's hold on the canary."""
        return LeaseHolder(LeaseHook(self.service.name, self.service.namespace), release_run)

    def drive(self, goal: Goal, permit: Callable[[], None] | None = None) -> Reconciliation:
        """Reach a goal, as a release does; a raised weight needs its `permit`."""
        return reconcile(self.service, goal, timeout_s=DRIVE_LIMIT_S, permit=permit)

    def watch_step(self, release_run: ReleaseRun) -> StepEnd:
        """Carry the release's one step out until it is decided, as the trigger of a canary does.

        :raises SlipwayError: it could not be decided.
        """
        before = self._object()
        stable = before["status"]["components"]["predictor"]["latestRolledoutRevision"]
        decision, events = asyncio.run(self._watch(release_run))
        after = self._object()
        windows = [one for one in events if one["kind"] == "window_judged"]
        shares = [one for one in events if one["kind"] == "weight_observed"]
        [candidate] = {*shares[0]["data"]["traffic"]} - {stable}
        back = [one for one in shares if one["data"]["weight"] == 0]
        verdict = windows[-1]["data"]["verdict"]
        # One patch began the canary, and whoever observes weight 0 may go on to the next phase at once.
        is_restored = after["spec"]["predictor"]["model"]["storageUri"] != release_run.storage_uri
        return StepEnd(
            decision=decision,
            verdict=verdict["status"],
            reason=verdict["reason"],
            candidate=candidate,
            windows=len(windows),
            decided_at=_unix_s(windows[-1]),
            weight_0_at=_unix_s(back[0]) if back else None,
            patches=after["metadata"]["generation"] - before["metadata"]["generation"] - 1 - is_restored,
        )

    async def _watch(self, release_run: ReleaseRun) -> tuple[str, list[dict[str, Any]]]:
        """Return the decision, and all events on the way to it."""
        rollout, events = self.spec.rollout, []
        judge = CanaryJudge(rollout.analysis)
        judge.begin_step(rollout.steps[0].weight, rollout.steps[0].bake_s)
        event: dict[str, Any] = {"decision": "continue", "judge": judge.to_json(), "elapsed_s": 0.0}
        while event["decision"] == "continue":
            # As the operator does it: after each report the watch is made anew.
            state = WatchState(secrets.token_hex(8), event["judge"], event["elapsed_s"])
            trigger = LabTrigger(
                release=release_run.model_dump(mode="json"),
                step=0,
                hold=False,
                state=state.to_dict(),
                aws_conn_id="aws_default",
                kubernetes_conn_id="kubernetes_default",
                metrics_conn_id="slipway_metrics",
            )
            [event] = [one.payload async for one in trigger.run()]
            events += event["events"]
            if event["error"] is not None:
                raise SlipwayError.from_dict(event["error"])
        return event["decision"], events

    def observed(self) -> Observed:
        """Observe the InferenceService.

        :raises SlipwayError: there is none.
        """
        found = observe_service(self.service)
        if found is None:
            raise SlipwayError("the lab's InferenceService is gone", expected="the one that was deployed")
        return found

    def roll_back(self, release_run: ReleaseRun) -> tuple[RolledBack, str]:
        """Take a canary back as a release's task does; return what its record says, and the candidate's revision.

        :raises SlipwayError: it could not be done.
        """
        parts = ReleaseContext(release_run.model_dump(mode="json"), Connections())
        parts.record.append(ReleaseStarted(stable_storage_uri=self._stable_uri))
        observed = self.observed()
        candidate = observed.revision_of(release_run.storage_uri)
        back = Rollback(parts, parts.record_of_address, lambda _: ("it is taken back", "a person"))
        back.take_back(RollBack(self._stable_uri, release_run.storage_uri), observed)
        [rolled_back] = [event.data for event in parts.record.events() if isinstance(event.data, RolledBack)]
        return rolled_back, candidate

    def restore(self, release_run: ReleaseRun) -> None:
        """End what a step has left, with all users on a new revision of version 1."""
        self.drive(RollBack(self._stable_uri, release_run.storage_uri))
        self.lease_holder(release_run).leave()

    def _object(self) -> dict[str, Any]:
        """Return the InferenceService.

        :raises SlipwayError: there is none.
        """
        found = self.service.get()
        if found is None:
            raise SlipwayError("the lab's InferenceService is gone", expected="the one that was deployed")
        return found


def _unix_s(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()
