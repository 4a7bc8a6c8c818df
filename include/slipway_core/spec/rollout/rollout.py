"""The release file's `rollout`: the canary, and what happens when."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slipway_core.lease_limits import (
    DEFAULT_HANDOVER_S,
    DEFAULT_LEASE_S,
    LONGEST_HANDOVER_S,
    LONGEST_LEASE_S,
)
from slipway_core.spec.parts import DnsLabel, Seconds, Text
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.rollout.approval import Approval
from slipway_core.spec.rollout.golden_replay import GoldenReplaySettings
from slipway_core.spec.rollout.metrics import Metrics
from slipway_core.spec.rollout.mirror_comparison import MirrorComparison
from slipway_core.spec.rollout.plan import (
    CanaryPlan,
    Exposure,
    OnInconclusive,
    RolloutStep,
    weights_rise,
)
from slipway_core.spec.rollout.preview import Preview
from slipway_core.spec.rollout.release_windows import ReleaseWindow
from slipway_core.spec.rollout.streaming import Streaming, streams_obstacle
from slipway_core.spec.servers.predictor import Predictor

_DEFAULT_STEPS = (
    RolloutStep(weight=5, bake_s=120),
    RolloutStep(weight=25, bake_s=180),
    RolloutStep(weight=50, bake_s=180),
    RolloutStep(weight=99, bake_s=60),
)


LONGEST_DRAIN_S = 900
AfterRollback = Literal["wait", "continue"]
OnHold = Literal["wait", "refuse"]


class Rollout(Predictor):
    """The canary: of which servers, in which steps, and what happens when."""

    inference_service: DnsLabel = ""
    """Default: the model's name."""
    namespace: DnsLabel = "models"
    steps: Annotated[tuple[RolloutStep, ...], Field(min_length=1, max_length=20)] = _DEFAULT_STEPS
    window_s: Annotated[int, Field(ge=1, le=3600)] = 10
    """Length of the judge's windows, seconds."""
    max_bake_s: Seconds = 600
    """How long a step may be extended while it has too little traffic to judge by."""
    ready_timeout_s: Seconds = 900
    on_inconclusive: OnInconclusive = "rollback"
    """If a step cannot be judged: hold for a person, roll back, or replay golden requests first."""
    golden_replay: GoldenReplaySettings = GoldenReplaySettings()
    streaming: Streaming = Streaming()
    """For models that users call over streams: who reads the content of the answers."""
    lease_s: Annotated[int, Field(ge=15, le=LONGEST_LEASE_S)] = DEFAULT_LEASE_S
    """If the canary isn't renewed for so long (Airflow or the metrics are down), its guard sets its weight to 0."""
    handover_s: Annotated[int, Field(ge=15, le=LONGEST_HANDOVER_S)] = DEFAULT_HANDOVER_S
    """The same, from the end of the last step until the task that promotes has begun; never less than `lease_s`."""
    drain_s: Annotated[int, Field(ge=0, le=LONGEST_DRAIN_S)] = 30
    """How long requests and streams that are open on the candidate at weight 0 may take to end; then
    its pods are ended."""
    analysis: AnalysisPolicy = AnalysisPolicy()
    exposure: Exposure = Exposure()
    metrics: Metrics = Field(default_factory=Metrics.default)
    mirror_comparison: MirrorComparison | None = None
    """Compare the answers to mirrored requests during the candidate's `preview`; null: don't."""
    approval: Approval = Approval()
    may_relax: tuple[Text, ...] = ()
    """Airflow users whose runs may require less than this file (steps, window); default: none."""
    preview: Preview | None = None
    """Default: the candidate starts with its first percent of users."""
    on_concurrent_release: Literal["refuse", "queue"] = "queue"
    """What a release does if another of the same model is under way: wait for its turn, or be refused."""
    release_windows: Annotated[tuple[ReleaseWindow, ...], Field(max_length=20)] = ()
    """When releases may begin and raise weights; empty: always. A rollback never waits."""
    on_hold: OnHold = "wait"
    """What a release does in a closed window or a freeze: wait (the canary stays watched), or be refused."""
    after_rollback: AfterRollback = "wait"
    """After a rollback of the model: newer versions wait for a person, or start automatically as before."""

    @property
    def plan(self) -> CanaryPlan:
        """The canary's plan."""
        return CanaryPlan(
            steps=self.steps,
            window_s=float(self.window_s),
            max_bake_s=float(self.max_bake_s),
            on_inconclusive=self.on_inconclusive,
            exposure=self.exposure,
        )

    @model_validator(mode="after")
    def _steps_make_sense(self) -> Self:
        if not weights_rise(self.steps):
            weights = [step.weight for step in self.steps]
            raise ValueError(f"the weights of `steps` must rise, but are {weights}")
        shortest, longest = min(step.bake_s for step in self.steps), max(step.bake_s for step in self.steps)
        if shortest < self.window_s:
            raise ValueError(
                f"a step of {shortest} s is shorter than `window_s: {self.window_s}`, so no window would fit"
            )
        if longest > self.max_bake_s:
            raise ValueError(f"a step of {longest} s is longer than `max_bake_s: {self.max_bake_s}`")
        return self

    @model_validator(mode="after")
    def _mirror_comparison_needs_a_preview(self) -> Self:
        if self.mirror_comparison is not None and self.preview is None:
            raise ValueError(
                "`mirror_comparison:` needs `preview:` (write `preview: {}`): without it no candidate exists to compare"
            )
        return self

    def streams_obstacle(self, mode: str) -> tuple[str, str] | None:
        """Return why the canary of a model that is asked over streams could not be judged, and what to do.

        :param mode: the deployment mode of the InferenceService.
        """
        only = self.golden_replay.metrics_see_users_only
        return streams_obstacle(self.streaming, self.metrics, mode, metrics_see_users_only=only)

    @model_validator(mode="after")
    def _streams_can_be_judged(self) -> Self:
        asked = self.streaming.protocol is not None or self.streaming.answers_read_by == "metrics"
        obstacle = self.streams_obstacle(self.deployment_mode) if asked else None
        if obstacle is not None:
            found, remedy = obstacle
            raise ValueError(
                f"the answers inside the model's streams would not be checked (`streaming`): {found}. "
                f"{remedy[0].upper()}{remedy[1:]}"
            )
        return self

    @model_validator(mode="after")
    def _replays_are_distinguishable(self) -> Self:
        trusted = self.metrics.sees_users_only or self.golden_replay.metrics_see_users_only
        if self.on_inconclusive == "golden_replay" and not trusted:
            raise ValueError(
                "with `on_inconclusive: golden_replay` the queries must leave out requests to the revisions' own URLs, "
                "or each replay counts twice; when they do, say so with `golden_replay: {metrics_see_users_only: true}`"
            )
        return self

    @model_validator(mode="after")
    def _grpc_errors_are_seen(self) -> Self:
        blindness = self.metrics.grpc_blindness
        if self.protocol == "grpc" and blindness is not None:
            raise ValueError(f"with `protocol: grpc` the judge would see no errors: {blindness}")
        if self.protocol == "grpc" and self.streaming.protocol == "generate_stream":
            raise ValueError(
                "`streaming.protocol: generate_stream` is HTTP, and with `protocol: grpc` the predictor has no port "
                "for it; write `streaming: {protocol: grpc}`"
            )
        return self
