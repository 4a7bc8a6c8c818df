"""What the tasks that drive a canary have in common: they hand it to the trigger, and write down what it saw."""

from __future__ import annotations

import logging
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from slipway.operators.base import attempt_of
from slipway.release_context import Connections, ReleaseContext
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import WatchState
from slipway.traffic.lease_holder import LeaseHolder
from slipway.triggers.canary import CanaryStepTrigger
from slipway.workflows import MODEL_RELEASE
from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.log_lines import window_line
from slipway_core.canary.verdict import Verdict
from slipway_core.errors import (
    CanaryEndedError,
    CanaryRefusedError,
    GateRefusedError,
    SlipwayError,
)
from slipway_core.operations.notices.of_release import (
    GUARD,
    inconclusive_after_s,
    inconclusive_notice,
)
from slipway_core.record.events import PendingEvent
from slipway_core.record.kinds import RollbackStarted, WindowJudged
from slipway_core.rollout.holder_identity import Stage

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

log = logging.getLogger(__name__)

# What a trigger may take beyond the step's own limits before Airflow gives it up.
DEFER_GRACE_S = 300


class CanaryWatch:
    """The canary of one release, as one of its tasks has it watched.

    :param stage: the stage of the release that the task is.
    :param generation: the InferenceService's when the canary was decided on, as text; empty: whatever is there.
    """

    def __init__(
        self, parts: ReleaseContext, connections: Connections, stage: Stage, generation: str
    ) -> None:
        self._parts = parts
        self._connections = connections
        self._stage: Stage = stage
        self._generation = int(generation) if generation.isdecimal() else None
        self._windows: list[str] = []

    def defer_step(
        self,
        operator: BaseOperator,
        context: Context,
        judge: CanaryJudge,
        step: int,
        elapsed_s: float,
        *,
        hold: bool = False,
        until_resumed: bool = False,
        method_name: str = "resume",
    ) -> None:
        """Defer the task to the trigger, with a judge as it stands; Airflow calls `method_name` with what it saw.

        :param hold: only watch; the step is over and shall not end for its time.
        :param until_resumed: only watch while a person has paused the canary.
        """
        release_run = self._parts.release_run
        rollout = release_run.spec.rollout
        # The next trigger's log takes the place of the last one's.
        for line in self._windows:
            log.info(line)
        # A name of its own: a task that is run again must not take over what its predecessor has judged.
        state = WatchState(secrets.token_hex(8), judge.to_json(), elapsed_s)
        operator.defer(
            trigger=CanaryStepTrigger(
                release=release_run.model_dump(mode="json"),
                step=step,
                hold=hold,
                state=state.to_dict(),
                generation=self._generation,
                aws_conn_id=self._connections.aws,
                kubernetes_conn_id=self._connections.kubernetes,
                metrics_conn_id=self._connections.metrics,
                stage=self._stage,
                attempt=attempt_of(context),
                until_resumed=until_resumed,
            ),
            method_name=method_name,
            kwargs={"step": step, "watched_s": elapsed_s},
            timeout=timedelta(seconds=rollout.ready_timeout_s + rollout.max_bake_s + DEFER_GRACE_S),
        )

    def hand_over(self, context: Context) -> None:
        """Let the lease last until the task that promotes has begun; nobody watches in between.

        :raises CanaryEndedError: somebody ended the canary.
        """
        release_run = self._parts.release_run
        if release_run.stable is not None:
            LeaseHolder(self._parts.lease, release_run, self._stage, attempt_of(context)).hand_over()

    def record_watched(self, event: dict[str, Any], step: int, watched_s: float) -> CanaryJudge:
        """Write what a trigger saw into the record, and return the judge as it stands.

        :param watched_s: how long the step had been watched when the trigger began.
        :raises CanaryRefusedError: the judge has had the candidate taken back.
        :raises CanaryEndedError: somebody else has.
        :raises SlipwayError: what the trigger met.
        """
        self._parts.require_admitted()
        for seen in _seen(event):
            self._write_down(seen)
        self._windows = _window_lines(event)
        if event["error"] is not None:
            raise SlipwayError.from_dict(event["error"])
        if event["decision"] == "roll_back":
            raise _refused(self._parts.release_run, event)
        judge = CanaryJudge.from_json(event["judge"])
        self._tell_if_inconclusive(judge.standing(), step, watched_s, event["elapsed_s"])
        return judge

    def _tell_if_inconclusive(self, verdict: Verdict, step: int, before_s: float, watched_s: float) -> None:
        """Tell people, once a step, that its verdict does not come."""
        release_run = self._parts.release_run
        plan = release_run.spec.rollout.plan
        limit_s = inconclusive_after_s(plan.steps[step].bake_s, plan)
        if verdict.status != "inconclusive" or not before_s < limit_s <= watched_s:
            return
        self._parts.outbox.tell(
            inconclusive_notice(
                release_run.model,
                release_run.version,
                verdict,
                watched_s=watched_s,
                at=datetime.now(UTC),
                release_id=release_run.release_id,
                dag_id=MODEL_RELEASE,
                evidence=release_run.uri(release_run.evidence_prefix),
            )
        )

    def _write_down(self, seen: PendingEvent) -> None:
        """Append what the trigger saw, under the time at which it saw it."""
        self._parts.record.append(seen.data, at=seen.at)


_UNHELD = (
    "its release stopped renewing the lease: check whether the DAG was paused in Airflow, or its scheduler or "
    "triggerer was down; "
)


def _seen(event: dict[str, Any]) -> list[PendingEvent]:
    """Return what the trigger saw and did, for the record."""
    return [PendingEvent.from_document(document) for document in event["events"]]


def _window_lines(event: dict[str, Any]) -> list[str]:
    """Return the lines about the windows that the trigger has judged, as it logged them itself."""
    try:
        return [
            window_line(Verdict.from_dict(seen.data.verdict), seen.at)
            for seen in _seen(event)
            if isinstance(seen.data, WindowJudged)
        ]
    except (ValueError, KeyError, TypeError, SlipwayError) as error:  # a line in a log is worth no failure
        return [f"the windows cannot be shown: {type(error).__name__}: {error}"]


def _refused(release_run: ReleaseRun, event: dict[str, Any]) -> GateRefusedError:
    """Return the error by which the canary is over: the judge ended it, or somebody else who had a reason."""
    started = [seen.data for seen in _seen(event) if isinstance(seen.data, RollbackStarted)]
    reason, by = (started[-1].reason, started[-1].by) if started else ("no reason was given", "judge")
    canary = f"the canary of {release_run.model!r} version {release_run.version}"
    if by == "judge":
        return CanaryRefusedError(
            f"{canary} was ended by the judge",
            expected="no evidence that it is worse than the stable version",
            found=reason,
            remedy="every window and verdict is in the record; fix the model and release a new version",
        )
    return CanaryEndedError(
        f"{canary} was ended by {by}",
        expected="a canary that its release holds until the decision",
        found=reason,
        remedy=f"{_UNHELD if by == GUARD else ''}find out why; if the reason is not the version, release it again "
        "with `force` (if a person rejected it, lift the rejection first)",
    )
