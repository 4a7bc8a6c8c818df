"""Live traffic: arm the rollback, raise the weight step by step, promote, or take everything back."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from include.model_release.canary import AnalysisPolicy, CanaryJudge
from include.model_release.errors import (
    CanaryRefusedError,
    ForeignChangeError,
    MetricsUnavailableError,
    SlipwayError,
)
from include.model_release.isvc_observation import Observed
from include.model_release.record import ReleaseState
from include.model_release.rollout import (
    Goal,
    Promote,
    RollBack,
    Withdraw,
)
from slipway.canary_journal import WatchState
from slipway.failures import airflow_failures
from slipway.hooks.kserve import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.hooks.metrics import DEFAULT_METRICS_CONN_ID, metrics_source
from slipway.hooks.signing import load_signing_key
from slipway.hooks.verification import require_published_repository
from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.rollout_driver import Turn, drive, first_deploy, look
from slipway.ticket import ReleaseTicket
from slipway.triggers.canary import CanaryStepTrigger
from slipway.triggers.first_deploy import FirstDeployTrigger
from slipway.wheel import Wheel

if TYPE_CHECKING:
    from airflow.sdk import Context

_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
# What a trigger may take beyond the step's own limits before Airflow gives it up.
_DEFER_GRACE_S = 300


class TrafficOperator(ReleaseOperator):
    """A step that looks at, or changes, who serves the users.

    :param kubernetes_conn_id: the cluster's connection.
    :param metrics_conn_id: where the judge's numbers come from.
    """

    def __init__(
        self,
        *,
        kubernetes_conn_id: str = "kubernetes_default",
        metrics_conn_id: str = DEFAULT_METRICS_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id
        self.metrics_conn_id = metrics_conn_id

    @property
    def service(self) -> KServeHook:
        """The release's InferenceService."""
        rollout = self.ticket.spec.rollout
        return KServeHook(rollout.inference_service, rollout.namespace, self.kubernetes_conn_id)

    @property
    def lease(self) -> LeaseHook:
        """The lease of the canary on it."""
        rollout = self.ticket.spec.rollout
        return LeaseHook(rollout.inference_service, rollout.namespace, self.kubernetes_conn_id)

    def tell(self, turn: Turn) -> None:
        """Logs what is being done to the InferenceService, and why."""
        self.log.info("%s: %s", type(turn.action).__name__.lower(), turn.action.reason)

    def reach(
        self,
        goal: Goal,
        on_turn: Callable[[Turn], None] | None = None,
        wheel: Wheel | None = None,
    ) -> Turn:
        """Drives the InferenceService to a goal, at most as long as a revision may take to come up.

        :param wheel: the hold on the canary that raising a weight needs; going back needs none.
        """
        options: dict[str, Any] = {}
        if wheel is not None:
            options = {"permit": wheel.keep, "while_waiting": wheel.keep_if_due}
        timeout_s = self.ticket.spec.rollout.ready_timeout_s
        return drive(self.service, goal, timeout_s=timeout_s, on_turn=on_turn or self.tell, **options)

    def take_back_canary(self, candidate_uri: str = "") -> None:
        """Takes a canary that is under way, if one is, back to what its own annotations name as stable."""
        observed = look(self.service)
        if observed is not None and observed.canary_percent is not None:
            self.log.warning("a canary is under way; taking it back to %s", observed.stable_uri)
            self.reach(RollBack(observed.stable_uri, candidate_uri))
        self.conceal_candidate(observed)
        # Also one that a release which died has left; the model's lock says that no other release lives.
        lease = self.lease.get()
        if lease is not None:
            self.lease.release(lease.holder)

    def conceal_candidate(self, observed: Observed | None) -> None:
        """Takes the candidate's own route away, which only the Standard dialect has.

        It leads nowhere once the candidate is gone and goes with the InferenceService; so it holds nothing up.
        """
        if observed is None or observed.dialect != "Standard":
            return
        try:
            self.service.conceal()
        except SlipwayError as error:
            self.log.warning("the candidate's own HTTPRoute stays: %s", error)


class ArmRollbackOperator(TrafficOperator):
    """The setup whose teardown is the rollback: once it has run, the rollback runs whatever happens.

    It changes nothing for this release. What a release that died has left half done, it takes back first.
    """

    def run(self, context: Context) -> int | None:
        """Finishes another's rollback if there is one to finish.

        :return: the InferenceService's generation, at which the release is decided on; None: there is none.
        :raises ForeignChangeError: another version is live than the one that the gates compared with.
        :raises SigningRefusedError: the release file names a key, and what lies there is not signed with it.
        :raises VersionConflictError: it names none, and what lies there is not what was published.
        """
        self.take_back_canary()
        with recorded_stage(self.record, "canary", resumed=True, goes_on=True):
            return self._decided_generation()

    def _decided_generation(self) -> int | None:
        self._require_published()
        observed, stable = look(self.service), self.ticket.stable
        live = "" if observed is None else observed.storage_uri
        if stable is not None and live != stable.storage_uri:
            raise ForeignChangeError(
                f"another version of {self.ticket.model!r} is live than when this release began",
                expected=stable.storage_uri,
                found=live or "no InferenceService",
                remedy="the gates compared with the old one: start the release again",
            )
        return None if observed is None else observed.generation

    def _require_published(self) -> None:
        """Refuses what is not what was published, and signed where demanded: users' servers download it anew."""
        ticket = self.ticket
        signing = ticket.spec.publish.signing
        key = None if signing is None else load_signing_key(signing)
        require_published_repository(self.store, ticket.model, ticket.version, key)


class ShiftTrafficOperator(TrafficOperator):
    """The canary: each step is reached, watched and judged in the triggerer; here it is recorded and decided.

    A task that is run again begins at the first step anew: less traffic and a judge without memory are the safe
    side. Without a stable version there is nothing to compare with: the version is deployed at 100 %.

    :param generation: the InferenceService's generation when the canary was decided on (templated): a task that comes
        late, when the canary was taken back or somebody has changed the spec, starts nothing. Empty: whatever is there.
    """

    template_fields: Sequence[str] = (*TrafficOperator.template_fields, "generation")

    def __init__(self, *, generation: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation

    def run(self, context: Context) -> None:
        """Begins the first step, or deploys the first version."""
        ticket = self.ticket
        with recorded_stage(self.record, "canary"):
            if ticket.stable is None:
                self._deploy_first(ticket)
                return
            judge = CanaryJudge(AnalysisPolicy.from_analysis(ticket.spec.rollout.analysis))
            self._begin(ticket, judge, 0)

    def resume(self, context: Context, event: dict[str, Any], step: int) -> str | None:
        """Writes down what the trigger saw, then goes on, ends or refuses.

        :return: the judge's state at the end, for who watches on until the promotion.
        """
        with airflow_failures(), recorded_stage(self.record, "canary", resumed=True):
            judge = self.take_down(event)
            if event["decision"] != "advance":
                self.watch(judge, step, event["elapsed_s"])
            elif step + 1 < len(self.ticket.spec.rollout.steps):
                self._begin(self.ticket, judge, step + 1)
            self.log.info("every step has passed")
            return judge.to_json()

    def take_down(self, event: dict[str, Any]) -> CanaryJudge:
        """Writes what a trigger saw into the record, and returns the judge as it stands.

        :raises CanaryRefusedError: the candidate has been taken back.
        :raises SlipwayError: what the trigger met.
        """
        for told in event["events"]:
            self._write_down(told)
        if event["error"] is not None:
            raise SlipwayError.from_dict(event["error"])
        if event["decision"] == "roll_back":
            raise _refused(self.ticket, event)
        return CanaryJudge.from_json(event["judge"])

    def _write_down(self, told: dict[str, Any]) -> None:
        """Appends what the trigger saw, under the time at which it saw it."""
        data = dict(told["data"])
        if data.get("first_bad_at"):
            data["first_bad_at"] = datetime.fromisoformat(data["first_bad_at"])
        self.record.append(told["kind"], at=datetime.fromisoformat(told["at"]), **data)
        self.log.info("%s: %s", told["kind"], data.get("verdict") or data)

    def _begin(self, ticket: ReleaseTicket, judge: CanaryJudge, step: int) -> None:
        """Writes what is intended, then lets the trigger do it."""
        planned = ticket.spec.rollout.steps[step]
        judge.begin_step(planned.weight, planned.bake_s)
        self.record.append(
            "weight_intended",
            weight=planned.weight,
            storage_uri=ticket.storage_uri,
            stable_storage_uri=ticket.stable and ticket.stable.storage_uri,
        )
        self.watch(judge, step, 0.0)

    def watch(self, judge: CanaryJudge, step: int, elapsed_s: float, *, hold: bool = False) -> None:
        """Goes on in the triggerer, with a judge as it stands.

        :param hold: only watch; the step is over and shall not end for its time.
        """
        ticket = self.ticket
        rollout = ticket.spec.rollout
        # A name of its own: a task that is run again must not take over what its predecessor has judged.
        state = WatchState(secrets.token_hex(8), judge.to_json(), elapsed_s)
        self.defer(
            trigger=CanaryStepTrigger(
                release=ticket.model_dump(mode="json"),
                step=step,
                hold=hold,
                state=state.to_dict(),
                generation=int(self.generation) if self.generation.isdecimal() else None,
                aws_conn_id=self.aws_conn_id,
                kubernetes_conn_id=self.kubernetes_conn_id,
                metrics_conn_id=self.metrics_conn_id,
            ),
            method_name="resume",
            kwargs={"step": step},
            timeout=timedelta(seconds=rollout.ready_timeout_s + rollout.max_bake_s + _DEFER_GRACE_S),
        )

    def _deploy_first(self, ticket: ReleaseTicket) -> None:
        """Writes that the version shall go live, then lets the trigger bring it up."""
        self.record.append(
            "weight_intended", weight=100, storage_uri=ticket.storage_uri, stable_storage_uri=None
        )
        self.defer(
            trigger=FirstDeployTrigger(
                release=ticket.model_dump(mode="json"), kubernetes_conn_id=self.kubernetes_conn_id
            ),
            method_name="deployed",
            timeout=timedelta(seconds=ticket.spec.rollout.ready_timeout_s + _DEFER_GRACE_S),
        )

    def deployed(self, context: Context, event: dict[str, Any]) -> None:
        """Writes down that the first version has all traffic."""
        with airflow_failures(), recorded_stage(self.record, "canary", resumed=True):
            if event["error"] is not None:
                raise SlipwayError.from_dict(event["error"])
            self.record.append("weight_observed", weight=100, traffic=event["traffic"])


class HoldCanaryOperator(ShiftTrafficOperator):
    """Watches on while a person thinks about the promotion; without such a person it has nothing to do.

    :param until_task_id: the task that waits for the person; its end ends the watch.
    :param judge: the judge's state after the last step (templated).
    """

    template_fields: Sequence[str] = (*ShiftTrafficOperator.template_fields, "judge")

    def __init__(self, *, until_task_id: str, judge: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until_task_id = until_task_id
        self.judge = judge

    def run(self, context: Context) -> None:
        """Begins to watch where the steps ended."""
        ticket = self.ticket
        if not ticket.spec.rollout.approval.before_promotion or ticket.stable is None:
            self.log.info("nobody is asked before the promotion")
            return
        with recorded_stage(self.record, "hold"):
            self.watch(CanaryJudge.from_json(self.judge), len(ticket.spec.rollout.steps) - 1, 0.0, hold=True)

    def resume(self, context: Context, event: dict[str, Any], step: int) -> None:
        """Watches on, unless the person has answered."""
        with airflow_failures(), recorded_stage(self.record, "hold", resumed=True):
            judge = self.take_down(event)
            if not self._is_answered(context):
                self.watch(judge, step, event["elapsed_s"], hold=True)

    def _is_answered(self, context: Context) -> bool:
        run = context["run_id"]
        states = context["ti"].get_task_states(
            dag_id=context["dag"].dag_id, task_ids=[self.until_task_id], run_ids=[run]
        )
        return states.get(run, {}).get(self.until_task_id) in _ENDED


class PromoteOperator(TrafficOperator):
    """Gives the version all traffic, sees that it has it, and says so in the record."""

    def run(self, context: Context) -> None:
        """Promotes; a task that is run again finds it done."""
        ticket = self.ticket
        with recorded_stage(self.record, "promote"):
            wheel = Wheel(self.lease, ticket)
            if ticket.stable is None:
                turn = self.reach(first_deploy(ticket))
            else:
                turn = self.reach(Promote(ticket.storage_uri), wheel=wheel)
            traffic = dict(turn.observed.traffic) if turn.observed else {}
            self.record.append("weight_observed", weight=100, traffic=traffic)
            self.record.append("promoted", storage_uri=ticket.storage_uri)
            self.conceal_candidate(turn.observed)
            wheel.leave()


class RestoreStableOperator(TrafficOperator):
    """Takes all traffic back to the stable version unless the candidate was promoted. A teardown.

    It needs neither the metrics source nor staging. Where the record cannot be read, cannot be right or cannot be
    written, it still brings the users back, by what the InferenceService itself says, and only then fails.
    """

    def run(self, context: Context) -> None:
        """Rolls back; whatever keeps it from telling the record must not keep the users where they are."""
        try:
            self._restore()
        except SlipwayError:
            self.take_back_canary(self.ticket.storage_uri)
            raise

    def _restore(self) -> None:
        """Rolls back if there is anything to take back."""
        state = self.record.state()
        if state.outcome in ("promoted", "rolled_back"):
            self.log.info("the version was %s; there is nothing to take back", state.outcome)
            self.tidy_up(state)
        elif state.intended_weight is None:
            self.log.info("no user was led to this version; there is nothing to take back")
        else:
            with recorded_stage(self.record, "roll_back"):
                self.take_back(state)

    def tidy_up(self, state: ReleaseState) -> None:
        """Does what a task that died right after writing how the release ended has not come to do."""
        if any(stage.name == "roll_back" and stage.outcome == "running" for stage in state.stages):
            self.record.append("stage_finished", stage="roll_back", outcome="passed")
        Wheel(self.lease, self.ticket).leave()

    def take_back(self, state: ReleaseState) -> None:
        """Drives the rollback, writing down each phase as it is entered."""
        ticket, record = self.ticket, self.record
        stable = None if ticket.stable is None else ticket.stable.storage_uri
        if not state.rolling_back:
            reason, by = _why(state)
            record.append("rollback_started", reason=reason, by=by, stable_storage_uri=stable)
        observed = look(self.service)
        candidate = None if observed is None else observed.revision_of(ticket.storage_uri) or None
        goal = Withdraw(ticket.storage_uri) if stable is None else RollBack(stable, ticket.storage_uri)
        weight_0_at = state.weight_0_at

        def on_turn(turn: Turn) -> None:
            nonlocal weight_0_at
            self.tell(turn)
            if weight_0_at is None and _is_off(turn.observed, candidate):
                weight_0_at = datetime.now(UTC)
            record.append("rollback_phase", phase=turn.action.phase, detail=turn.action.reason)

        self.conceal_candidate(self.reach(goal, on_turn).observed)
        requests, errors = self._final_counts(candidate)
        record.append(
            "rolled_back",
            stable_storage_uri=stable,
            candidate_requests=requests,
            candidate_errors=errors,
            weight_0_at=weight_0_at or datetime.now(UTC),
        )
        Wheel(self.lease, ticket).leave()

    def _final_counts(self, candidate: str | None) -> tuple[int | None, int | None]:
        """What users met in all; unknown where the source is away, which must not hold up a rollback."""
        if candidate is None:
            return None, None
        try:
            source = metrics_source(self.ticket.spec, self.metrics_conn_id)
            counters = source.read([candidate])[candidate].totals()
        except MetricsUnavailableError as error:
            self.log.warning("the candidate's final counts are not known: %s", error)
            return None, None
        return counters.requests, counters.errors


def _is_off(observed: Observed | None, candidate: str | None) -> bool:
    return observed is None or candidate is None or observed.share(candidate) == 0


def _why(state: ReleaseState) -> tuple[str, str]:
    """Reason and author of a rollback that the trigger has not begun already."""
    failed = next((stage for stage in state.stages if stage.outcome in ("refused", "failed")), None)
    if failed is not None:
        by = "judge" if failed.outcome == "refused" else "task failure"
        return failed.reason or f"the stage {failed.name} {failed.outcome}", by
    return "the run was stopped before the version was promoted", "cancellation"


def _refused(ticket: ReleaseTicket, event: dict[str, Any]) -> CanaryRefusedError:
    reasons = [told["data"]["reason"] for told in event["events"] if told["kind"] == "rollback_started"]
    return CanaryRefusedError(
        f"the canary of {ticket.model!r} version {ticket.version} was ended",
        expected="no evidence that it does worse than the stable version",
        found=reasons[-1] if reasons else "no reason was told",
        remedy="every window and verdict is in the record; mend the model and release a new version",
    )
