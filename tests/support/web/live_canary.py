"""A release on its way while a test looks: the real record, judge, fold and writers, with made-up traffic."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.writer import ViewWriter
from slipway.release_record.record import ReleaseRecord
from slipway_core.bucket_layout import evidence_prefix, live_key, repository_paths
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge, Window
from slipway_core.canary.totals import Totals
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample
from slipway_core.read_model.live import LiveWindow
from slipway_core.read_model.live_fold import Watched, live_document, live_window
from slipway_core.record.kinds import (
    Approved,
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackPhase,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StageStarted,
    StepFinished,
    VersionRejected,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.record.requirements import Before, Requirements
from slipway_core.spec.rollout.plan import CanaryPlan, Exposure, RolloutStep

BUCKETS = (5.0, 10.0, 20.0, 50.0, 100.0, 250.0, math.inf)
STAGES = ("convert", "publish", "stage", "validate", "benchmark")
WINDOW_S = 10.0
_PLAN = CanaryPlan(
    tuple(RolloutStep(weight=weight, bake_s=bake_s) for weight, bake_s in ((5, 120), (20, 180), (50, 300))),
    window_s=WINDOW_S,
    exposure=Exposure(max_requests=20_000, max_errors=60),
)


@dataclass
class LiveCanary:
    """One release of a version, driven event by event and window by window.

    :param now: when it began; it goes on from there.
    """

    store: ModelStoreHook
    model: str
    version: int
    stable: int | None
    now: datetime
    by: str | None = "operator"
    approvals: tuple[Before, ...] = ()
    by_other: bool = True
    release_id: str = ""
    windows: list[LiveWindow] = field(default_factory=list)
    paused: str = ""

    def __post_init__(self) -> None:
        self.release_id = self.release_id or f"{self.model}-{self.version}"
        self.record = ReleaseRecord(self.store, self.model, self.version, self.release_id)
        self.judge = CanaryJudge(AnalysisPolicy.from_mapping({}))
        self.index, self.elapsed_s = -1, 0.0
        self.verdict: Verdict | None = None
        self._random = random.Random(self.version)
        self._writer = ViewWriter(self.store)

    def uri(self, version: int | None) -> str | None:
        """Return where a version lies."""
        if version is None:
            return None
        return repository_paths(self.model, version).storage_uri(self.store.bucket)

    def say(self, *events: EventData, after_s: float = 2.0) -> None:
        """Append events to the record."""
        for event in events:
            self.now += timedelta(seconds=after_s)
            self.record.append(event, at=self.now)

    def publish(self) -> None:
        """Bring the model's document up to date, as the tasks do."""
        self._writer.bring_up_to_date(self.model, [self.version])

    # --- what happens ---

    def begin(self, until: str = "", reason: str | None = None) -> LiveCanary:
        """Pass every stage before the traffic, or begin the one that is named."""
        required = Requirements(
            gates=("validate", "benchmark"),
            weights=tuple(step.weight for step in _PLAN.steps) if self.stable else (),
            approvals=self.approvals,
            by_other=self.by_other,
        )
        self.say(
            ReleaseStarted(
                stable_storage_uri=self.uri(self.stable),
                required=required,
                triggered_by=self.by,
                reason=reason,
            )
        )
        for stage in STAGES:
            self.say(StageStarted(stage=stage))
            if stage == until:
                return self
            self.say(StageFinished(stage=stage, outcome="passed", manifest_sha256="a" * 64), after_s=14)
        return self

    def ask(self, before: Before = "canary") -> LiveCanary:
        """Wait for a person."""
        self.say(StageStarted(stage="approve" if before == "canary" else "approve_promotion"))
        return self

    def agree(self, by: str, before: Before = "canary") -> LiveCanary:
        """Go on with a person's agreement."""
        stage = "approve" if before == "canary" else "approve_promotion"
        self.say(
            Approved(before=before, by=by, manifest_sha256="a" * 64),
            StageFinished(stage=stage, outcome="passed"),
        )
        return self

    def step(self) -> LiveCanary:
        """Begin the next step of the canary."""
        if self.index < 0:
            self.say(StageStarted(stage="canary"))
        self.index, self.elapsed_s = self.index + 1, 0.0
        weight = _PLAN.steps[self.index].weight
        self.judge.begin_step(weight, _PLAN.steps[self.index].bake_s)
        self.say(
            WeightIntended(
                weight=weight,
                storage_uri=str(self.uri(self.version)),
                stable_storage_uri=self.uri(self.stable),
            ),
            WeightObserved(weight=weight, traffic={"stable": 100 - weight, "candidate": weight}),
        )
        return self

    def watch(self, windows: int, *, candidate_errors: float = 0.004, slower: float = 1.0) -> LiveCanary:
        """Judge some windows; the candidate has that share of errors and is that much slower."""
        weight = _PLAN.steps[self.index].weight
        for _ in range(windows):
            total = self._random.randint(900, 1100)
            candidate = round(total * weight / 100)
            seen = Window(
                WINDOW_S,
                self._sample(total - candidate, 0.004, 1.0),
                self._sample(candidate, candidate_errors, slower),
            )
            self.verdict = self.judge.observe(seen)
            self.elapsed_s += WINDOW_S
            totals = self.verdict.statistics.canary
            self.say(
                WindowJudged(
                    verdict=self.verdict.to_dict(),
                    candidate_requests=totals.candidate_requests,
                    candidate_errors=totals.candidate_errors,
                    first_bad_at=None,
                ),
                after_s=WINDOW_S,
            )
            self.windows.append(live_window(self.verdict, self.now))
        return self

    def write_live(self, *, decision: str = "", at: datetime | None = None) -> LiveCanary:
        """Write the live document, as the watch does after each window.

        :param at: when it was written; now, as the test's clock has it.
        """
        assert self.verdict is not None
        watched = Watched(
            self.model,
            self.version,
            self.release_id,
            step=self.index,
            weight_observed=_PLAN.steps[self.index].weight,
            elapsed_s=self.elapsed_s,
            held=False,
            paused=self.paused,
            decision=decision,
            verdict=self.verdict,
            unjudged=Totals(),
        )
        document = live_document(watched, _PLAN, self.windows, at=at or datetime.now(UTC))
        self.store.write(live_key(self.model), document.to_bytes(), content_type="application/json")
        return self

    def end_step(self, verdict: str = "pass") -> LiveCanary:
        """End the step."""
        assert self.verdict is not None
        seen = self.verdict.statistics.step
        self.say(
            StepFinished(
                weight=_PLAN.steps[self.index].weight,
                verdict=verdict,
                reason="",
                candidate_requests=seen.candidate_requests,
                candidate_errors=seen.candidate_errors,
                seconds=self.elapsed_s,
            )
        )
        return self

    def promote(self) -> LiveCanary:
        """Give the version all users."""
        self.say(
            StageStarted(stage="promote"),
            Promoted(storage_uri=str(self.uri(self.version))),
            StageFinished(stage="promote", outcome="passed"),
            ReleaseFinished(outcome="promoted"),
        )
        return self

    def roll_back(self, reason: str, by: str = "judge") -> LiveCanary:
        """Take the users back."""
        self.say(
            RollbackStarted(reason=reason, by=by, stable_storage_uri=self.uri(self.stable)),
            RollbackPhase(phase="shield", detail="percent 0"),
            WeightObserved(weight=0, traffic={"stable": 100, "candidate": 0}),
            RollbackPhase(phase="restore", detail="the good storageUri"),
            RolledBack(
                stable_storage_uri=self.uri(self.stable),
                candidate_requests=1200,
                candidate_errors=61,
                weight_0_at=self.now,
            ),
            VersionRejected(reason=reason, by=None, stage="canary"),
            ReleaseFinished(outcome="rolled_back", reason=reason),
        )
        self.report("canary.html", "<!doctype html><title>canary</title><p>The canary, window by window.</p>")
        return self

    def report(self, name: str, content: str) -> None:
        """Write a file of evidence."""
        key = f"{evidence_prefix(self.model, self.version, self.release_id)}{name}"
        kind = "text/html" if name.endswith(".html") else "application/json"
        self.store.write(key, content.encode(), content_type=kind)

    def _sample(self, requests: int, errors: float, slower: float) -> Sample:
        counts = dict.fromkeys(BUCKETS, 0)
        for _ in range(requests):
            took = self._random.lognormvariate(2.3, 0.45) * slower
            counts[next(edge for edge in BUCKETS if took <= edge)] += 1
        failed = sum(self._random.random() < errors for _ in range(requests))
        return Sample(requests, failed, counts)
