"""Watching one step of a canary without holding a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_triton.triggers.pace import Pace
from slipway.hooks.ingress import IngressHook
from slipway.read_model.live_writer import LiveObject, LiveTeller
from slipway.release_context import Connections, ReleaseContext
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import CanaryJournal, JournalKeeper, WatchOwner, WatchState
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.raise_permit import RaisePermit
from slipway.traffic.shield import CanaryShield
from slipway.traffic.step_cluster import CanaryCluster
from slipway.traffic.step_watcher import StepWatch
from slipway.triggers.timing import STORE_TIMEOUT_S
from slipway_core.bucket_layout import watch_journal_key
from slipway_core.errors import SlipwayError
from slipway_core.rollout.holder_identity import Stage


class Seen(dict[str, Any]):
    """What the trigger saw; Airflow logs it when it fires, and a person reads on in that log."""

    def __repr__(self) -> str:
        return f"{self['decision']}, {len(self['events'])} events for the record"


class CanaryStepTrigger(BaseTrigger):
    """Brings the candidate to one weight, watches it there and judges each window.

    Yields one event, a mapping: ``decision`` (what the plan says to do now; ``continue`` reports what was seen so
    far; ``paused`` and ``held`` could not give the step's weight; ``failed`` comes with an error), ``judge`` (the
    judge's state), ``elapsed_s`` (in this step), ``events`` (for the record: ``kind``, ``at``, ``data``) and
    ``error`` (`SlipwayError.to_dict()` or None).

    A verdict against the candidate is carried out before it is reported: the trigger itself takes the weight to 0, so
    that no user waits for a worker. Everything it does follows from what it observes; two of it do no harm.

    After each window the state is saved in the object store, so that a triggerer that is started anew goes on with
    the judge, the counters and the events that it had.

    :param release: the `ReleaseRun` as a mapping.
    :param step: index of the step in the plan.
    :param hold: only watch and report, whatever the step's time.
    :param state: `WatchState.to_dict()`.
    :param generation: the InferenceService's when the canary was decided on; None: whatever is there.
    :param stage: the stage of the release that drives the canary now, and `attempt` the try of its task. A trigger that
        is made again on another triggerer is the same try.
    :param until_resumed: only watch while a person has paused the canary.
    """

    def __init__(
        self,
        *,
        release: dict[str, Any],
        step: int,
        hold: bool,
        state: dict[str, Any],
        aws_conn_id: str,
        kubernetes_conn_id: str,
        metrics_conn_id: str,
        generation: int | None = None,
        stage: Stage = "canary",
        attempt: int = 1,
        until_resumed: bool = False,
    ) -> None:
        super().__init__()
        self.release = release
        self.step = step
        self.hold = hold
        self.state = state
        self.aws_conn_id = aws_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self.metrics_conn_id = metrics_conn_id
        self.generation = generation
        self.stage: Stage = stage
        self.attempt = attempt
        self.until_resumed = until_resumed
        self._running: StepWatch | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "release": self.release,
                "step": self.step,
                "hold": self.hold,
                "state": self.state,
                "aws_conn_id": self.aws_conn_id,
                "kubernetes_conn_id": self.kubernetes_conn_id,
                "metrics_conn_id": self.metrics_conn_id,
                "generation": self.generation,
                "stage": self.stage,
                "attempt": self.attempt,
                "until_resumed": self.until_resumed,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch the step and yield what came of it."""
        pace, failure, decision = Pace(), None, "failed"
        watch = self._running = self._watch()
        try:
            decision = await watch.run()
        except SlipwayError as error:
            failure = error.to_dict()
        await pace.until_due()
        yield TriggerEvent(
            Seen(
                decision=decision,
                judge=watch.judge.to_json(),
                elapsed_s=watch.elapsed_s,
                events=[seen.to_document() for seen in watch.events],
                error=failure,
            )
        )

    async def on_kill(self) -> None:
        """A person has stopped the task: users come first, the rest of the rollback is the teardown's."""
        await (self._running or self._watch()).shield()

    def _permit(self, parts: ReleaseContext) -> Callable[[int], None]:
        """Return what is asked right before each patch that raises the weight."""
        return RaisePermit(parts.make_store(STORE_TIMEOUT_S), parts.release_run).require

    def _owner(self, release_run: ReleaseRun) -> WatchOwner:
        """Return whose watch this is."""
        return WatchOwner(
            release_id=release_run.release_id,
            model=release_run.model,
            version=release_run.version,
            stage=self.stage,
            attempt=self.attempt,
            step=self.step,
        )

    def _watch(self) -> StepWatch:
        # Its HTTP client reads the machine's certificates when it is imported: parsing a DAG need not wait for that.
        from slipway.traffic.golden_replay import GoldenReplay
        from slipway.traffic.streams.probes import StreamProbes

        parts = ReleaseContext(
            self.release, Connections(self.aws_conn_id, self.kubernetes_conn_id, self.metrics_conn_id)
        )
        release_run = parts.release_run
        plan = release_run.spec.rollout.plan
        journal = CanaryJournal(
            parts.make_store(STORE_TIMEOUT_S), watch_journal_key(release_run.model), self._owner(release_run)
        )
        metrics = parts.make_metrics()
        return StepWatch(
            release_run,
            plan,
            self.step,
            WatchState.from_dict(self.state),
            cluster=CanaryCluster(
                release_run,
                self.step,
                plan.steps[self.step].weight,
                service=parts.service,
                lease_holder=LeaseHolder(parts.lease, release_run, self.stage, self.attempt),
                generation=self.generation,
                permit=self._permit(parts),
            ),
            shield=CanaryShield(release_run, parts.make_service()),
            metrics=metrics,
            journal=JournalKeeper(journal),
            replay=GoldenReplay(release_run, parts.registry, IngressHook()),
            streams=StreamProbes(release_run, parts.registry, IngressHook(), metrics),
            live=LiveTeller(LiveObject(parts.make_store(STORE_TIMEOUT_S), plan)),
            hold=self.hold,
            until_resumed=self.until_resumed,
        )
