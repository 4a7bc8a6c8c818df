"""`rollback_leak_requests`: what the candidate still answers once a rollback says that nobody is on it.

Unary requests over HTTP and gRPC, and gRPC streams that their clients never end, go through a real Envoy to real
Tritons while a canary at half of the traffic is taken back as a release's task does, in each of KServe's modes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figure import Figure, MeasureError
from benchmarks.live.session import ROOT, live_model
from slipway_core.rollout.next_action import StartCanary

if TYPE_CHECKING:
    from benchmarks.live.canary import LabModel
    from slipway_core.record.kinds import RolledBack
    from slipway_sandbox.load.answers import Answer
    from slipway_sandbox.load.open_streams import OpenStreams

MODES = ("Knative", "Standard")
WEIGHT = 50
STREAMS = 16
RATE_RPS = 100.0
WATCHED_S = 10.0
"""How long the candidate is watched after the rollback said that nobody is on it."""
_MET_LIMIT_S = 30.0
_LEAST_ON_CANDIDATE = 3


@dataclass(frozen=True)
class Leak:
    """One rollback: answers of the candidate after it said that nobody is on it (`unary`, `streams`), and before that
    but after weight 0 (`late`), said after so many `seconds` from weight 0. `broken` streams of other revisions ended.
    """

    mode: str
    how: str
    seconds: float
    unary: int
    streams: int
    late: int
    broken: int


def measure() -> Figure:
    """Count them, in each mode, with the default grace."""
    found = [measure_mode(mode) for mode in MODES]
    note = "; ".join(
        f"{one.mode}: {one.how} {one.seconds:.1f} s after weight 0, {one.late} answers in between, "
        f"{one.broken} streams of the good version broken"
        for one in found
    )
    leaked = sum(one.unary + one.streams for one in found)
    return Figure("rollback_leak_requests", float(leaked), "requests", note=note)


def measure_mode(mode: str, drain_s: int | None = None, *, root: Path = ROOT) -> Leak:
    """Take one canary back under load.

    :raises MeasureError: the candidate got no stream, or nobody said that nobody is on it.
    """
    with live_model(weight=WEIGHT, mode=mode, drain_s=drain_s, root=root) as model:
        release_run = model.publish()
        model.drive(
            StartCanary(
                release_run.storage_uri,
                WEIGHT,
                release_id=release_run.release_id,
                version=release_run.version,
            ),
            model.lease_holder(release_run).take,
        )
        with model.load(RATE_RPS, f"leak-{mode}") as load, model.open_streams(STREAMS) as streams:
            _until_met(model, release_run.storage_uri, streams)
            rolled_back, candidate = model.roll_back(release_run)
            time.sleep(WATCHED_S)
        return leak_of(mode, rolled_back, candidate, load.answers(), streams)


def _until_met(model: LabModel, uri: str, streams: OpenStreams) -> None:
    """Wait until some of the streams are on the candidate."""
    observed = model.observed()
    candidate = observed.revision_of(uri)
    limit = time.monotonic() + _MET_LIMIT_S
    while streams.open_on(candidate) < _LEAST_ON_CANDIDATE or not streams.open_on(observed.stable_revision):
        if time.monotonic() > limit:
            raise MeasureError(f"the streams did not come to both {candidate} and {observed.stable_revision}")
        time.sleep(0.1)


def leak_of(
    mode: str, rolled_back: RolledBack, candidate: str, answers: Sequence[Answer], streams: OpenStreams
) -> Leak:
    """Return what came of a rollback that its record tells so.

    :raises MeasureError: it does not say that nobody is on the candidate.
    """
    if (
        rolled_back.weight_0_at is None
        or rolled_back.drain_seconds is None
        or rolled_back.drained not in ("counted", "pods_ended")
    ):
        raise MeasureError(
            f"the rollback does not say that nobody is on the candidate: {rolled_back.drained}"
        )
    weight_0 = rolled_back.weight_0_at.timestamp()
    said = weight_0 + rolled_back.drain_seconds
    unary = [one.received for one in answers if one.revision == candidate]
    on_streams = [one.at for one in streams.answers if one.revision == candidate]
    return Leak(
        mode=mode,
        how=str(rolled_back.drained),
        seconds=rolled_back.drain_seconds,
        unary=sum(at > said for at in unary),
        streams=sum(at > said for at in on_streams),
        late=sum(weight_0 < at <= said for at in [*unary, *on_streams]),
        broken=sum(one.revision not in (candidate, None) for one in streams.ends),
    )
