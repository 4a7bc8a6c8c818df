"""The document of a canary that is watched: one object, written over once a window, read by pages.

    s3://BUCKET/live/MODEL.json

It is for people. Nothing that decides reads it, and the watch waits for nothing of it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from slipway_core.metrics.samples import Source
from slipway_core.read_model.stored import (
    Count,
    Line,
    ModelName,
    Part,
    Percent,
    ReadModelDocument,
    Seconds,
    Version,
)
from slipway_core.value_types import UtcTime

WINDOWS_LIMIT = 240

Status = Literal["pass", "fail", "inconclusive"]
Amount = Annotated[float, Field(ge=0)]


class LiveSample(Part):
    """One revision in one window.

    `error_percent` is the share of errors with its 95 % interval by Clopper and Pearson, None without requests. The
    latencies are None if the metrics source knows none; with `p99_is_above` the p99 lies above `p99_ms`.
    """

    requests: Count
    errors: Count
    error_percent: Amount | None = None
    error_percent_low: Amount | None = None
    error_percent_high: Amount | None = None
    p50_ms: Amount | None = None
    p99_ms: Amount | None = None
    p99_is_above: bool = False


class LiveWindow(Part):
    """A window that was judged, and what the judge said after it.

    `stable` and `candidate` are None if the metrics source had no data. `evidence` is by hypothesis test,
    `total_evidence` stands against `threshold`, `no_worse` against `no_worse_threshold`.
    """

    at: UtcTime
    seconds: Seconds = 0.0
    weight: Percent | None = None
    source: Source = "users"
    status: Status
    reason: Line = ""
    no_data: bool = False
    stable: LiveSample | None = None
    candidate: LiveSample | None = None
    evidence: Annotated[dict[Annotated[str, Field(max_length=100)], Amount], Field(max_length=20)] = Field(
        default_factory=dict
    )
    total_evidence: Amount = 0.0
    threshold: Amount = 0.0
    no_worse: Amount = 0.0
    no_worse_threshold: Amount = 0.0


class ExposureUsed(Part):
    """What users have met of the candidate, and the most that they may meet; None: no limit."""

    requests: Count = 0
    errors: Count = 0
    max_requests: Count | None = None
    max_errors: Count | None = None


class LiveDocument(ReadModelDocument):
    """Where the watch of a canary stands.

    `step` is the number of the step, from 1, and `weights` the percents of all steps. `step_elapsed_s` is how long the
    step has been watched of `step_bake_s`, and at most `max_bake_s` while the judge cannot tell. `next_decision_at` is
    when the step can end at the earliest; None: it has no end, because it is held or paused, or it has ended.
    `decision` is what the watch has decided at the end of the step, "" before. `held` tells that it only watches while
    a person thinks or a raise is held. `paused_since` and `held_since` are when the watch first saw that. `windows`
    are the last ones, oldest first. `waiting` is why the candidate has not the step's weight yet, its pods' troubles
    included; "" once it has. A first version that comes up has no steps: its document says what it waits for, and no
    more.
    """

    called: ClassVar[str] = "live document of a canary"
    limit_bytes: ClassVar[int] = 2 << 20

    model: ModelName
    version: Version
    release_id: Line
    written_at: UtcTime
    step: Count = 0
    weights: Annotated[tuple[Percent, ...], Field(max_length=100)] = ()
    weight_intended: Percent | None = None
    weight_observed: Percent | None = None
    step_elapsed_s: Seconds = 0.0
    step_bake_s: Seconds = 0.0
    max_bake_s: Seconds = 0.0
    window_s: Seconds = 0.0
    next_decision_at: UtcTime | None = None
    exposure: ExposureUsed = ExposureUsed()
    waiting: Line = ""
    paused: Line = ""
    paused_since: UtcTime | None = None
    held: bool = False
    held_since: UtcTime | None = None
    decision: Line = ""
    verdict: Line = ""
    reason: Line = ""
    windows: Annotated[tuple[LiveWindow, ...], Field(max_length=WINDOWS_LIMIT)] = ()
