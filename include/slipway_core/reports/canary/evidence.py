"""The evidence of a canary, made of the events in a release's record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, cast

from slipway_core.canary.verdict import Status
from slipway_core.canary.verdict_text import source_of
from slipway_core.documents.document_form import format_errors
from slipway_core.record.events import Event, RecordError
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    EventData,
    ReleaseStarted,
    StageStarted,
    StepFinished,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.record.state import ReleaseState
from slipway_core.reports.canary.decisions import decisions_of, weight_0_times
from slipway_core.reports.canary.document import (
    FORMAT_VERSION,
    CanaryEvidence,
    CanaryRun,
    CanaryStep,
    Exposure,
    JudgedWindow,
    ObservedWeight,
    PlannedStep,
    RunSums,
    Seen,
    SeenSample,
    Statistics,
    Window,
)
from slipway_core.reports.canary.recording import judged_again
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.rollout.plan import RolloutStep


@format_errors("the record of the canary", RecordError)
def canary_evidence(
    events: Sequence[Event],
    policy: AnalysisPolicy,
    *,
    release_id: str | None = None,
    planned: Sequence[RolloutStep] = (),
) -> CanaryEvidence:
    """Return the evidence of one release, by default of the newest in the record.

    :param events: all events of the version, those of other releases too.
    :param planned: the steps of the release file, so that those that were not reached are known.
    :raises RecordError: where the record has gaps or knows nothing of the release.
    """
    state = _state(events, release_id)
    own = sorted(
        (event for event in events if event.release_id == state.release_id), key=lambda event: event.seq
    )
    parts = [*_runs(own)]
    runs: list[CanaryRun] = []
    for number, part in enumerate(parts, start=1):
        before = runs[-1].weights[-1].weight if runs else 0
        runs.append(_run(number, part, policy, before, superseded=number < len(parts)))
    return CanaryEvidence(
        kind="canary_evidence",
        format_version=FORMAT_VERSION,
        model=state.model,
        version=state.version,
        release_id=state.release_id,
        outcome=state.outcome,
        reason=state.reason,
        until=own[-1].at,
        storage_uri=state.storage_uri,
        stable_storage_uri=state.stable_storage_uri,
        policy=policy,
        planned=[PlannedStep(weight=step.weight, bake_s=step.bake_s) for step in planned],
        exposure=_exposure(state),
        runs=runs,
    )


# --- which events make a run ---


def _state(events: Sequence[Event], release_id: str | None) -> ReleaseState:
    """Return what the record said when the release `release_id` was the newest."""
    ordered = sorted(events, key=lambda event: event.seq)
    newest = fold(ordered)
    if release_id is None or newest.release_id == release_id:
        return newest
    later = [
        place for place, event in enumerate(ordered) if isinstance(event.data, ReleaseStarted) and place > 0
    ]
    for start, end in reversed([*pairwise([0, *later])]):
        if ordered[start].release_id == release_id:
            return fold(ordered[:end])
    raise RecordError(
        f"the record of {newest.model} {newest.version} knows no release {release_id!r}",
        expected=f"one of {', '.join(sorted({event.release_id for event in ordered}))}",
        found=repr(release_id),
    )


def _runs(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Split the events of one release where its canary started again; events before the first start are omitted.

    A task that died while it wrote its events writes them again, and a watch that was restarted observes the traffic
    again: repeated events count once.
    """
    run: list[Event] | None = None
    seen: defaultdict[datetime, list[EventData]] = defaultdict(list)
    weight: int | None = None
    for event in events:
        data = event.data
        if isinstance(data, StageStarted) and data.stage == "canary":
            if run is not None:
                yield run
            run, seen, weight = [], defaultdict(list), None
        again = isinstance(data, WeightObserved) and data.weight == weight
        if run is None or again or data in seen[event.at]:
            continue
        weight = data.weight if isinstance(data, WeightObserved) else weight
        seen[event.at].append(data)
        run.append(event)
    if run is not None:
        yield run


# --- one run ---


def _run(
    number: int, events: Sequence[Event], policy: AnalysisPolicy, weight: int, *, superseded: bool
) -> CanaryRun:
    """Return one run.

    :param weight: what the candidate had of the traffic when the run began.
    """
    steps: list[CanaryStep] = []
    windows: list[JudgedWindow] = []
    for intended, part in _steps(events):
        step, seen = _step(len(steps) + 1, intended, part, len(windows))
        steps.append(step)
        windows += seen
    return CanaryRun(
        number=number,
        superseded=superseded,
        began_at=events[0].at,
        ended_at=max(event.at for event in events),
        weights=[ObservedWeight(at=events[0].at, weight=weight), *_weights(events)],
        steps=steps,
        windows=windows,
        decisions=decisions_of(events),
        totals=_totals(windows),
        recomputed=judged_again(steps, windows, policy),
    )


def _steps(events: Sequence[Event]) -> Iterator[tuple[WeightIntended, list[Event]]]:
    """Split the events of a run where a step was begun; what comes before the first is left out."""
    intended: WeightIntended | None = None
    step: list[Event] = []
    for event in events:
        if isinstance(event.data, WeightIntended) and 0 < event.data.weight < 100:
            if intended is not None:
                yield intended, step
            intended, step = event.data, [event]
        elif intended is not None:
            step.append(event)
    if intended is not None:
        yield intended, step


def _step(
    number: int, intended: WeightIntended, events: Sequence[Event], before: int
) -> tuple[CanaryStep, list[JudgedWindow]]:
    """Return a step and its windows, which are counted from those `before` it."""
    weight, intended_at = intended.weight, events[0].at
    observed_at: datetime | None = None
    finished: StepFinished | None = None
    finished_at: datetime | None = None
    windows: list[JudgedWindow] = []
    for event in events:
        data = event.data
        if isinstance(data, WeightObserved) and data.weight == weight:
            observed_at = observed_at or event.at
        elif isinstance(data, WindowJudged):
            began_at = windows[-1].at if windows else observed_at or intended_at
            windows.append(
                _window(before + len(windows) + 1, number, weight, began_at, event.at, data.verdict)
            )
        elif isinstance(data, StepFinished):
            finished, finished_at = data, event.at
    statistics = windows[-1].statistics if windows else None
    step = CanaryStep(
        number=number,
        weight=weight,
        bake_s=None if statistics is None else statistics.bake_s,
        intended_at=intended_at,
        observed_at=observed_at,
        finished_at=finished_at,
        # A record may hold any text there; `CanaryStep` refuses anything but the three.
        verdict=None if finished is None else cast(Status, finished.verdict),
        reason=None if finished is None else finished.reason,
        seconds=None if finished is None else finished.seconds,
        totals=None if statistics is None else statistics.step,
        no_data_windows=sum(window.window is None for window in windows),
    )
    return step, windows


def _window(
    number: int, step: int, weight: int, began_at: datetime, at: datetime, verdict: Mapping[str, Any]
) -> JudgedWindow:
    """Return a window that was judged at `at`; one in which nothing was seen began at `began_at`."""
    more: dict[str, Any] = {}
    window = None if verdict["window"] is None else Window.model_validate(verdict["window"])
    if window is not None:
        began_at = at - timedelta(seconds=window.seconds)
        samples = {"stable": window.stable, "candidate": window.candidate}
        seen = {name: SeenSample.of(sample, window.seconds) for name, sample in samples.items()}
        # A window in which nothing was seen has no such key in the document.
        more["seen"] = Seen(**seen)
    if verdict.get("not_seen"):
        more["not_seen"] = verdict["not_seen"]
    return JudgedWindow(
        number=number,
        step=step,
        weight=weight,
        began_at=began_at,
        at=at,
        source=source_of(verdict["window"]),
        no_data=bool(verdict.get("no_data")),
        status=verdict["status"],
        reason=verdict["reason"],
        statistics=Statistics.model_validate(verdict["statistics"]),
        window=window,
        **more,
    )


def _weights(events: Sequence[Event]) -> list[ObservedWeight]:
    """Return the candidate's percent of the traffic as it was seen, in order of time."""
    seen = [(event.at, event.data.weight) for event in events if isinstance(event.data, WeightObserved)]
    seen += [(at, 0) for at in weight_0_times(events)]
    return [ObservedWeight(at=at, weight=weight) for at, weight in sorted(seen)]


def _totals(windows: Sequence[JudgedWindow]) -> RunSums:
    """Return the judge's last sums over the run, how many windows of users were judged, and how many had no data."""
    sums = windows[-1].statistics.canary.recorded if windows else {}
    return RunSums.model_validate(
        {
            **{name: value for name, value in sums.items() if name != "windows"},
            "windows": sum(window.source == "users" for window in windows),
            "no_data_windows": sum(window.no_data for window in windows),
        }
    )


def _exposure(state: ReleaseState) -> Exposure:
    """Return what users met: counts from the canary's start until weight 0 was seen, where that is known."""
    return Exposure(
        candidate_requests=state.candidate_requests,
        candidate_errors=state.candidate_errors,
        first_bad_at=state.first_bad_at,
        weight_0_at=state.weight_0_at,
        seconds_from_first_bad_answer_to_weight_0=state.seconds_from_first_bad_answer_to_weight_0,
    )
