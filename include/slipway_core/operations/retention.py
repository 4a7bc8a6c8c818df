"""Which versions of a model keep their files, and which may be deleted: a plan, made of what is there.

Whatever gives a version a reason to be kept keeps it. What could not be read is never taken for "is not used": then
nothing of the model is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from slipway_core.operations.documents import OperationsDocument
from slipway_core.operations.live_history import LiveHistory
from slipway_core.spec.retention import Retention
from slipway_core.value_types import UtcTime

_NO_HISTORY = LiveHistory(None, None, {})

Number = Annotated[int, Field(ge=1, lt=10**19)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Action = Literal["keep", "delete", "deleted"]


@dataclass(frozen=True)
class StoredVersion:
    """A version in the bucket. `objects` and `size_bytes` are of what a deletion would remove.

    `published_at` is None if it has no manifest, `begun_at` tells when its tombstone was written.
    """

    version: int
    objects: int
    size_bytes: int
    published_at: datetime | None
    begun_at: datetime | None = None


@dataclass(frozen=True)
class Recorded:
    """What the record of a version tells of it. `needs` are the versions that it needs while it is open."""

    outcome: str
    standing: str
    last_at: datetime
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class ModelFacts:
    """All that a plan is made of. `named` says, by version, who names it: the cluster, staging, the lock, a pin."""

    model: str
    stored: Sequence[StoredVersion] = ()
    recorded: Mapping[int, Recorded] = field(default_factory=dict)
    history: LiveHistory = _NO_HISTORY
    named: Mapping[int, Sequence[str]] = field(default_factory=dict)


class VersionPlan(BaseModel):
    """What becomes of one version, and why. `deleted`: its files are gone, its evidence and tombstone stay."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Number
    action: Action
    reasons: tuple[str, ...]
    objects: Count
    size_bytes: Count
    published_at: UtcTime | None = None


class ModelPlan(OperationsDocument):
    """What becomes of a model's versions. `unreadable` says what could not be read; then nothing is deleted."""

    called: ClassVar[str] = "plan for a model"

    schema_version: Literal[1] = 1
    model: str
    looked_at: UtcTime
    keep_promoted: int
    keep_days: int
    unreadable: str | None = None
    versions: tuple[VersionPlan, ...] = ()

    def with_action(self, action: Action) -> list[VersionPlan]:
        """Return the versions to which this is to be done."""
        return [one for one in self.versions if one.action == action]


def unreadable_plan(model: str, policy: Retention, now: datetime, why: str) -> ModelPlan:
    """Return the plan of a model of which something could not be read: nothing is deleted."""
    return ModelPlan(
        model=model,
        looked_at=now,
        keep_promoted=policy.keep_promoted,
        keep_days=policy.keep_days,
        unreadable=why,
    )


def plan_retention(facts: ModelFacts, policy: Retention, now: datetime) -> ModelPlan:
    """Return what becomes of each version that lies in the bucket, by number.

    :param now: UTC.
    """
    newest = _newest_promoted(facts, policy.keep_promoted)
    needed = _needed_by_open_records(facts)
    versions = []
    for one in sorted(facts.stored, key=lambda stored: stored.version):
        if one.begun_at is not None and not one.objects:
            action, reasons = "deleted", [f"deleted since {one.begun_at:%Y-%m-%d %H:%M} UTC"]
        else:
            kept = [*facts.named.get(one.version, ()), *needed.get(one.version, ())]
            kept += _reasons_of_history(one.version, facts.history)
            if one.begun_at is None:
                kept += _reasons_of_policy(one, facts, policy, now, newest)
            elif kept:
                kept.append("its deletion was started and is not finished")
            action, reasons = ("keep", kept) if kept else ("delete", [_why_it_goes(one, facts, policy)])
        versions.append(
            VersionPlan(
                version=one.version,
                action=action,  # type: ignore[arg-type]
                reasons=tuple(reasons),
                objects=one.objects,
                size_bytes=one.size_bytes,
                published_at=one.published_at,
            )
        )
    return ModelPlan(
        model=facts.model,
        looked_at=now,
        keep_promoted=policy.keep_promoted,
        keep_days=policy.keep_days,
        versions=tuple(versions),
    )


def _newest_promoted(facts: ModelFacts, most: int) -> set[int]:
    """Return the newest versions that are whole, were promoted, and not rolled back since."""
    whole = {one.version for one in facts.stored if one.published_at is not None and one.begun_at is None}
    promoted = [version for version, recorded in facts.recorded.items() if recorded.standing == "promoted"]
    return set(sorted(whole.intersection(promoted), reverse=True)[:most])


def _needed_by_open_records(facts: ModelFacts) -> dict[int, list[str]]:
    needed: dict[int, list[str]] = {}
    for version, recorded in sorted(facts.recorded.items()):
        if recorded.outcome == "open":
            needed.setdefault(version, []).append("its record is still open")
            for other in recorded.needs:
                if other != version:
                    needed.setdefault(other, []).append(f"the open record of version {version} names it")
    return needed


def _reasons_of_history(version: int, history: LiveHistory) -> list[str]:
    if version == history.live:
        return ["live by the records"]
    return ["live before the live one, by the records"] if version == history.before else []


def _reasons_of_policy(
    one: StoredVersion, facts: ModelFacts, policy: Retention, now: datetime, newest: set[int]
) -> list[str]:
    if one.published_at is None:
        return ["it has no manifest: its publishing was started and not finished"]
    recorded = facts.recorded.get(one.version)
    if recorded is None:
        return ["it has no record, so its outcome is unknown"]
    reasons = []
    if one.version in newest:
        reasons.append(f"one of the newest {policy.keep_promoted} that were promoted")
    limit = timedelta(days=policy.keep_days)
    moments = {
        "published": one.published_at,
        "last live": facts.history.left_at.get(one.version),
        "last written to its record": recorded.last_at,
    }
    latest, what = max((at, what) for what, at in moments.items() if at is not None)
    if now - latest < limit:
        reasons.append(f"{what} on {latest:%Y-%m-%d}, which is less than {policy.keep_days} days ago")
    return reasons


def _why_it_goes(one: StoredVersion, facts: ModelFacts, policy: Retention) -> str:
    if one.begun_at is not None:
        return f"its deletion was started on {one.begun_at:%Y-%m-%d %H:%M} UTC and is finished now"
    recorded = facts.recorded[one.version]
    what = {"promoted": "promoted", "rolled_back": "rolled back"}.get(recorded.standing, recorded.outcome)
    left = facts.history.left_at.get(one.version)
    lived = f"last live on {left:%Y-%m-%d}" if left is not None else "never live"
    return (
        f"{what}, {lived}; not among the newest {policy.keep_promoted} promoted, older than {policy.keep_days} "
        "days, and not in use"
    )
