"""The measurements that go to Airflow's own metrics (OpenTelemetry, StatsD) when something happens in a release.

Names and tags follow Airflow's: lower case, dots, milliseconds for timers; Airflow puts its prefix before them. Each
tag has few values: models, and words of this project. Texts that people or servers write are not used as tags.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Literal

from slipway_core.record.conclusion import CANCELLATION
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    Approved,
    EventData,
    HoldOverridden,
    RaiseHeld,
    ReleaseStarted,
    RollbackStarted,
    StageFinished,
    StepFinished,
    VersionRejected,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.record.state import ReleaseState

Kind = Literal["counter", "gauge", "timer"]
OTHER = "other"
# Of a verdict: `Status`, without the judge, which a task that only writes a record need not load.
VERDICTS = ("pass", "fail", "inconclusive")
ROLLBACK_AUTHORS = ("judge", "guard", "task failure", CANCELLATION, "a person")
STAGE_OUTCOMES = ("passed", "refused", "inconclusive", "failed", "skipped", "reused", "left_out", "cancelled")


@dataclass(frozen=True)
class Moment:
    """A metric of Airflow's that releases add to; `tags` are the names of its tags beside `model`."""

    name: str
    kind: Kind
    help_text: str
    tags: tuple[str, ...] = ()

    def of(self, model: str, value: float = 1, **tags: str) -> Measurement:
        """Return one measurement of it."""
        return Measurement(self, value, {"model": model, **tags})


@dataclass(frozen=True)
class Measurement:
    """One measurement for Airflow: milliseconds for a timer."""

    moment: Moment
    value: float
    tags: Mapping[str, str] = field(default_factory=dict)


STARTED = Moment("slipway.releases_started", "counter", "attempts to release a version that began")
CONCLUDED = Moment("slipway.releases", "counter", "releases that ended", ("outcome",))
STAGES = Moment("slipway.stages", "counter", "stages that ended", ("stage", "outcome"))
STEPS = Moment("slipway.steps", "counter", "steps of canaries that ended", ("verdict",))
WINDOWS = Moment("slipway.windows", "counter", "windows that were judged", ("verdict",))
ROLLBACKS = Moment("slipway.rollbacks", "counter", "decisions to go back", ("by",))
APPROVALS = Moment("slipway.approvals", "counter", "approvals that people gave", ("before",))
REJECTIONS = Moment("slipway.rejections", "counter", "rejections of a version", ("by",))
HOLDS = Moment("slipway.holds", "counter", "raises that a freeze or a closed window held")
OVERRIDES = Moment("slipway.overrides", "counter", "overrides of a freeze or a closed window")
INTENDED = Moment(
    "slipway.candidate_weight_intended_ratio", "gauge", "the candidate's share of the traffic, as requested"
)
OBSERVED = Moment(
    "slipway.candidate_weight_observed_ratio", "gauge", "the candidate's share of the traffic, as seen"
)
EVIDENCE = Moment("slipway.evidence", "gauge", "the judge's evidence against the candidate after a window")
DURATION = Moment("slipway.release_duration_ms", "timer", "from a release's start to its end", ("outcome",))
LEAD_TIME = Moment("slipway.lead_time_ms", "timer", "from upload to promotion")
RECOVERY = Moment(
    "slipway.time_to_recover_ms",
    "timer",
    "until weight 0 was seen: since the first bad answer, or since the decision to go back",
    ("since",),
)
MOMENTS = (
    STARTED,
    CONCLUDED,
    STAGES,
    STEPS,
    WINDOWS,
    ROLLBACKS,
    APPROVALS,
    REJECTIONS,
    HOLDS,
    OVERRIDES,
    INTENDED,
    OBSERVED,
    EVIDENCE,
    DURATION,
    LEAD_TIME,
    RECOVERY,
)


def measurements_of(event: Event) -> tuple[Measurement, ...]:
    """Return the measurements of an event that has been written to the record."""
    return _measurements(event.data, event.model)


def measurements_of_end(state: ReleaseState) -> tuple[Measurement, ...]:
    """Return the measurements of a release that has ended; none while it has not."""
    if state.outcome == "open":
        return ()
    model, outcome = state.model, state.outcome
    # A gauge keeps its last value: there is no candidate any more.
    measurements = [CONCLUDED.of(model, outcome=outcome), INTENDED.of(model, 0), OBSERVED.of(model, 0)]
    if state.seconds is not None:
        measurements.append(DURATION.of(model, _ms(state.seconds), outcome=outcome))
    lead_s = state.seconds_from_landed_to_promoted
    if lead_s is not None:
        measurements.append(LEAD_TIME.of(model, _ms(lead_s)))
    for since, seconds in (
        ("first_bad_answer", state.seconds_from_first_bad_answer_to_weight_0),
        ("decision", state.seconds_from_decision_to_weight_0),
    ):
        if seconds is not None:
            measurements.append(RECOVERY.of(model, _ms(seconds), since=since))
    return tuple(measurements)


@singledispatch
def _measurements(data: EventData, model: str) -> tuple[Measurement, ...]:
    """Return the measurements of an event; most kinds have none."""
    return ()


@_measurements.register
def _started(data: ReleaseStarted, model: str) -> tuple[Measurement, ...]:
    return (STARTED.of(model),)


@_measurements.register
def _stage(data: StageFinished, model: str) -> tuple[Measurement, ...]:
    # A pod for each variant has a stage of its own: `convert-VARIANT`.
    stage = data.stage.partition("-")[0]
    return (STAGES.of(model, stage=stage, outcome=_known(data.outcome, STAGE_OUTCOMES)),)


@_measurements.register
def _step(data: StepFinished, model: str) -> tuple[Measurement, ...]:
    return (STEPS.of(model, verdict=_known(data.verdict, VERDICTS)),)


@_measurements.register
def _window(data: WindowJudged, model: str) -> tuple[Measurement, ...]:
    counted = WINDOWS.of(model, verdict=_known(data.verdict.get("status"), VERDICTS))
    evidence = _evidence(data.verdict)
    return (counted,) if evidence is None else (counted, EVIDENCE.of(model, evidence))


@_measurements.register
def _rollback(data: RollbackStarted, model: str) -> tuple[Measurement, ...]:
    return (ROLLBACKS.of(model, by=_word(_known(data.by, ROLLBACK_AUTHORS))),)


@_measurements.register
def _approved(data: Approved, model: str) -> tuple[Measurement, ...]:
    return (APPROVALS.of(model, before=_known(data.before, ("canary", "promotion"))),)


@_measurements.register
def _rejected(data: VersionRejected, model: str) -> tuple[Measurement, ...]:
    return (REJECTIONS.of(model, by="a_person" if data.by else "a_stage"),)


@_measurements.register
def _held(data: RaiseHeld, model: str) -> tuple[Measurement, ...]:
    return (HOLDS.of(model),)


@_measurements.register
def _overridden(data: HoldOverridden, model: str) -> tuple[Measurement, ...]:
    return (OVERRIDES.of(model),)


@_measurements.register
def _intended(data: WeightIntended, model: str) -> tuple[Measurement, ...]:
    return (INTENDED.of(model, data.weight / 100),)


@_measurements.register
def _observed(data: WeightObserved, model: str) -> tuple[Measurement, ...]:
    return (OBSERVED.of(model, data.weight / 100),)


def _known(value: object, words: tuple[str, ...]) -> str:
    """Return the word where it is one of these, else `other`: a tag has few values."""
    return next((word for word in words if word == value), OTHER)


def _word(text: str) -> str:
    """Return a tag's value without blanks, which StatsD's servers read in different ways."""
    return text.replace(" ", "_")


def _evidence(verdict: Mapping[str, Any]) -> float | None:
    statistics = verdict.get("statistics")
    found = statistics.get("total_evidence") if isinstance(statistics, Mapping) else None
    if not isinstance(found, (int, float)) or isinstance(found, bool) or not math.isfinite(found):
        return None
    return float(found)


def _ms(seconds: float) -> float:
    return seconds * 1000.0
