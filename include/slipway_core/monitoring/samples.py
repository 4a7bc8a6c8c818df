"""From the read model's documents to the samples of the metrics: nothing else is read for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import get_args

from slipway_core.monitoring import families
from slipway_core.monitoring.families import Sample
from slipway_core.operations.revalidation.report import Check
from slipway_core.read_model.documents import (
    FindingLine,
    FreezeLine,
    ModelDocument,
    OpenRelease,
    Unreadable,
    VersionLine,
)
from slipway_core.read_model.live import LiveDocument, LiveSample, Status
from slipway_core.record.events import OUTCOMES

EVERY_MODEL = "_all"
"""Whom a freeze of every model is counted for: no model can have this name."""
OTHER = "other"
# Stages of a release, and of a rollback by hand; a later version of Slipway may write others.
STAGES = (
    "admit",
    "convert",
    "choose",
    "publish",
    "smoke_test",
    "stage",
    "baseline",
    "validate",
    "benchmark",
    "preview",
    "mirror",
    "approve",
    "canary",
    "hold",
    "approve_promotion",
    "promote",
    "roll_back",
)


@dataclass(frozen=True)
class Seen:
    """What there is to count.

    :param read_at: when all of it was read.
    :param live: what the watches of canaries wrote last, by model.
    :param freezes: those of every model.
    """

    models: Mapping[str, ModelDocument | Unreadable]
    read_at: datetime
    live: Mapping[str, LiveDocument] = field(default_factory=dict)
    freezes: Sequence[FreezeLine] = ()


def samples(seen: Seen) -> Iterator[Sample]:
    """Yield a sample for each series."""
    documents = {name: one for name, one in sorted(seen.models.items()) if isinstance(one, ModelDocument)}
    yield families.MODELS.of(len(documents))
    yield families.READ_AT.of(seen.read_at.timestamp())
    for model, one in sorted(seen.models.items()):
        yield families.READABLE.of(isinstance(one, ModelDocument), model=model)
    for model, document in documents.items():
        yield from _history(model, document)
        if document.open_release is not None:
            watch = _watch_of(document.open_release, seen.live.get(model))
            yield from _open(model, document.open_release, watch)
            if watch is not None:
                yield from _watched(model, watch)
        yield from _frozen(model, document.freezes, seen.read_at)
        yield from _found(model, document.findings)
    yield from _frozen(EVERY_MODEL, seen.freezes, seen.read_at)


def _history(model: str, document: ModelDocument) -> Iterator[Sample]:
    """Yield what is live, and what became of the releases so far."""
    if document.live_version is not None:
        yield families.LIVE_VERSION.of(document.live_version, model=model)
    if document.live_since is not None:
        yield families.LIVE_SINCE.of(document.live_since.timestamp(), model=model)
    yield families.IN_FLIGHT.of(document.open_release is not None, model=model)
    for outcome in OUTCOMES:
        if outcome != "open":
            ended = sum(line.ended.get(outcome, 0) for line in document.versions)
            yield families.RELEASES.of(ended, model=model, outcome=outcome)
    if document.last is not None:
        yield families.LAST_OUTCOME.of(1, model=model, outcome=document.last.outcome)
        if document.last.finished_at is not None:
            yield families.LAST_FINISHED.of(document.last.finished_at.timestamp(), model=model)
    promoted = _newest(document.versions, "promoted")
    if promoted is not None:
        yield from _between(families.LEAD_TIME, promoted.landed_at, promoted.finished_at, model=model)
    back = _newest(document.versions, "rolled_back")
    if back is not None:
        yield from _between(
            families.RECOVERY, back.first_bad_at, back.weight_0_at, model=model, since="first_bad_answer"
        )
        yield from _between(
            families.RECOVERY, back.rollback_started_at, back.weight_0_at, model=model, since="decision"
        )


def _newest(versions: Iterable[VersionLine], outcome: str) -> VersionLine | None:
    """Return the version whose newest attempt ended so, the last one to do so."""
    ended = ((line.finished_at, line) for line in versions if line.outcome == outcome)
    known = [(at, line.version, line) for at, line in ended if at is not None]
    return max(known, key=lambda one: one[:2])[2] if known else None


def _between(
    family: families.Family, begin: datetime | None, end: datetime | None, **labels: str
) -> Iterator[Sample]:
    if begin is not None and end is not None:
        yield family.of(max((end - begin).total_seconds(), 0.0), **labels)


def _watch_of(release: OpenRelease, live: LiveDocument | None) -> LiveDocument | None:
    """Return what the watch of this release's canary wrote; None: it has none, or that is another release's."""
    return live if live is not None and live.release_id == release.release_id else None


def _open(model: str, release: OpenRelease, watch: LiveDocument | None) -> Iterator[Sample]:
    """Yield where a release stands."""
    yield families.CANDIDATE_VERSION.of(release.version, model=model)
    # A pod for each variant has a stage of its own: `convert-VARIANT`.
    stage = release.stage.partition("-")[0]
    yield families.STAGE.of(1, model=model, stage=stage if stage in STAGES else OTHER)
    if release.started_at is not None:
        yield families.STARTED.of(release.started_at.timestamp(), model=model)
    if release.updated_at is not None:
        yield families.UPDATED.of(release.updated_at.timestamp(), model=model)
    for reason, text in (
        ("approval", release.waits_for_approval),
        ("resume", release.paused or (watch.paused if watch is not None else "")),
        ("hold", release.held),
    ):
        yield families.WAITS.of(bool(text), model=model, reason=reason)
    yield families.ROLLING_BACK.of(release.rolling_back, model=model)
    if release.verdict:
        known = release.verdict if release.verdict in get_args(Status) else OTHER
        yield families.VERDICT.of(1, model=model, verdict=known)
    intended, observed = _weights(release, watch)
    if intended is not None:
        yield families.INTENDED.of(intended / 100, model=model)
    if observed is not None:
        yield families.OBSERVED.of(observed / 100, model=model)


def _weights(release: OpenRelease, watch: LiveDocument | None) -> tuple[int | None, int | None]:
    """Return the weight asked for and the weight seen, by the watch or by the record: whoever wrote last."""
    newer = watch is not None and (release.updated_at is None or watch.written_at >= release.updated_at)
    if watch is None or not newer:
        return release.weight_intended, release.weight_observed
    return watch.weight_intended, watch.weight_observed


def _watched(model: str, live: LiveDocument) -> Iterator[Sample]:
    """Yield what the watch of a canary saw last."""
    yield families.WATCH_WRITTEN.of(live.written_at.timestamp(), model=model)
    yield families.WATCH_WINDOW.of(live.window_s, model=model)
    exposure = live.exposure
    yield families.CANDIDATE_REQUESTS.of(exposure.requests, model=model)
    yield families.CANDIDATE_ERRORS.of(exposure.errors, model=model)
    used = [
        met / most
        for met, most in (
            (exposure.requests, exposure.max_requests),
            (exposure.errors, exposure.max_errors),
        )
        if most
    ]
    if used:
        yield families.EXPOSURE.of(max(used), model=model)
    if not live.windows:
        return
    last = live.windows[-1]
    if math.isfinite(last.total_evidence):
        yield families.EVIDENCE.of(last.total_evidence, model=model)
        yield families.EVIDENCE_THRESHOLD.of(last.threshold, model=model)
    for revision, sample in (("stable", last.stable), ("candidate", last.candidate)):
        if sample is not None:
            yield from _window(model, revision, sample)


def _window(model: str, revision: str, sample: LiveSample) -> Iterator[Sample]:
    if sample.requests:
        yield families.WINDOW_ERRORS.of(sample.errors / sample.requests, model=model, revision=revision)
    for quantile, found_ms in (("0.5", sample.p50_ms), ("0.99", sample.p99_ms)):
        if found_ms is not None:
            yield families.WINDOW_LATENCY.of(
                found_ms / 1000, model=model, revision=revision, quantile=quantile
            )


def _frozen(model: str, freezes: Sequence[FreezeLine], now: datetime) -> Iterator[Sample]:
    # A document may be older than the end of a freeze.
    in_force = [one for one in freezes if one.until > now]
    yield families.FREEZES.of(len(in_force), model=model)
    if in_force:
        yield families.FREEZE_SINCE.of(min(one.at for one in in_force).timestamp(), model=model)
        yield families.FREEZE_UNTIL.of(max(one.until for one in in_force).timestamp(), model=model)


def _found(model: str, findings: Sequence[FindingLine]) -> Iterator[Sample]:
    known = get_args(Check)
    for check in (*known, OTHER):
        opened = [one for one in findings if (one.check if one.check in known else OTHER) == check]
        if opened or check != OTHER:
            yield families.FINDINGS.of(len(opened), model=model, check=check)
        times = [one.opened_at for one in opened if one.opened_at is not None]
        if times:
            yield families.FINDING_OPENED.of(min(times).timestamp(), model=model, check=check)
