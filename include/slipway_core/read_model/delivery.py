"""How a model's releases go: lead time, failure rate and time to recover, and when the one under way may end.

The three are DORA's delivery figures (https://dora.dev/guides/dora-metrics/): lead time for changes, change fail rate,
failed deployment recovery time. Medians are given, since one release that waited over a weekend says little of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from slipway_core.read_model.documents import ModelDocument, OpenRelease, VersionLine

# Of older releases the gates and the model were others.
_EARLIER = 10


@dataclass(frozen=True)
class Delivery:
    """Figures of a model's releases; None if there is nothing to count.

    :param lead_time_s: median seconds from landed to promoted, of `promoted` versions.
    :param failure_percent: of the `met_users` attempts that users met, the percent that was rolled back.
    :param recover_s: median seconds to weight 0 of `recovered` rollbacks, from the first bad answer, or from the
        rollback's begin where no bad answer was counted.
    """

    lead_time_s: float | None
    promoted: int
    failure_percent: float | None
    met_users: int
    recover_s: float | None
    recovered: int


def delivery_of(document: ModelDocument) -> Delivery:
    """Return the figures of the versions that the document of a model holds."""
    lead = [
        *_seconds((one.landed_at, one.finished_at) for one in document.versions if one.outcome == "promoted")
    ]
    recover = [
        *_seconds(
            (one.first_bad_at or one.rollback_started_at, one.weight_0_at)
            for one in document.versions
            if one.outcome == "rolled_back"
        )
    ]
    good = sum(one.ended.get("promoted", 0) for one in document.versions)
    bad = sum(one.ended.get("rolled_back", 0) for one in document.versions)
    return Delivery(
        median(lead) if lead else None,
        len(lead),
        100 * bad / (good + bad) if good + bad else None,
        good + bad,
        median(recover) if recover else None,
        len(recover),
    )


@dataclass(frozen=True)
class ExpectedEnd:
    """When a release may end, as the promoted releases before it went; `releases` is their number."""

    at: datetime
    releases: int


def expected_end(
    document: ModelDocument, release: OpenRelease, left: Iterable[str], now: datetime
) -> ExpectedEnd | None:
    """Return when the release under way may end, should everything pass; None: nothing tells.

    Each stage takes the median of what it took in the last promoted releases with as many steps of the canary. A stage
    that has taken longer already ends now. Nothing is expected while a person is waited for, while a raise is held or
    paused, or on the way back.

    :param left: the stages that are under way or ahead.
    """
    if (
        release.waits_for_approval
        or release.held
        or release.paused
        or release.rolling_back
        or release.is_rollback
    ):
        return None
    earlier = [
        one
        for one in document.versions
        if one.outcome == "promoted" and one.version != release.version and len(one.weights) == release.steps
    ][:_EARLIER]
    left_s = 0.0
    for name in dict.fromkeys(left):
        usual = _usual_seconds(earlier, name)
        if usual is None:
            return None
        left_s += max(usual - _elapsed_s(document, release, name, now), 0.0)
    return ExpectedEnd(now + timedelta(seconds=left_s), len(earlier)) if left_s else None


def _usual_seconds(earlier: Iterable[VersionLine], stage: str) -> float | None:
    """Return how long a stage usually took; one that all of these releases left out takes no time."""
    lines = [*earlier]
    taken = [
        gate.seconds
        for line in lines
        for gate in line.gates
        if gate.stage == stage and gate.outcome == "passed" and gate.seconds is not None
    ]
    if taken:
        return median(taken)
    return None if not lines or any(gate.stage == stage for line in lines for gate in line.gates) else 0.0


def _elapsed_s(document: ModelDocument, release: OpenRelease, stage: str, now: datetime) -> float:
    line = document.line(release.version)
    gates = () if line is None else line.gates
    began = next(
        (gate.started_at for gate in gates if gate.stage == stage and gate.outcome == "running"), None
    )
    return 0.0 if began is None else max((now - began).total_seconds(), 0.0)


def _seconds(spans: Iterable[tuple[datetime | None, datetime | None]]) -> Iterable[float]:
    for began, ended in spans:
        if began is not None and ended is not None and ended >= began:
            yield (ended - began).total_seconds()
