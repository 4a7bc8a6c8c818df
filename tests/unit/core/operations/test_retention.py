"""The plan of retention: what is named is never deleted, and a policy that keeps more deletes no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError
from slipway_core.operations.live_history import LiveHistory
from slipway_core.operations.retention import (
    ModelFacts,
    ModelPlan,
    Recorded,
    StoredVersion,
    plan_retention,
    unreadable_plan,
)
from slipway_core.spec.retention import Retention

NOW = datetime(2026, 11, 22, tzinfo=UTC)
POLICY = Retention(keep_promoted=2, keep_days=30)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def stored(version: int, days: float = 90, **changes: object) -> StoredVersion:
    fields = {"version": version, "objects": 3, "size_bytes": 1000, "published_at": ago(days), **changes}
    return StoredVersion(**fields)  # type: ignore[arg-type]


def recorded(
    standing: str = "promoted", days: float = 90, outcome: str = "", needs: tuple[int, ...] = ()
) -> Recorded:
    return Recorded(outcome or standing or "refused", standing, ago(days), needs)


def plan(**changes: object) -> ModelPlan:
    """The plan for versions 1 to 6, all promoted 90 days ago; 6 is live, and 5 was before it."""
    facts = {
        "model": "digits",
        "stored": [stored(version) for version in range(1, 7)],
        "recorded": {version: recorded() for version in range(1, 7)},
        "history": LiveHistory(6, 5, {version: ago(60) for version in range(1, 6)}),
        **changes,
    }
    return plan_retention(ModelFacts(**facts), POLICY, NOW)  # type: ignore[arg-type]


def deleted(one: ModelPlan) -> list[int]:
    return [version.version for version in one.with_action("delete")]


def reasons(one: ModelPlan, version: int) -> str:
    return "; ".join(next(each for each in one.versions if each.version == version).reasons)


def test_old_versions_go() -> None:
    """The newest promoted, the live one and the one before it stay; each version that goes says why."""
    one = plan()
    assert deleted(one) == [1, 2, 3, 4]
    assert "live by the records" in reasons(one, 6)
    assert "live before the live one" in reasons(one, 5)
    assert reasons(one, 1) == (
        "promoted, last live on 2026-09-23; not among the newest 2 promoted, older than 30 days, and not in use"
    )
    assert sum(each.size_bytes for each in one.with_action("delete")) == 4000


KEPT = {
    "the cluster names it": ({"named": {3: ["the InferenceService a/b names it"]}}, "a/b names it"),
    "its record is open": ({"recorded": {3: recorded(outcome="open")}}, "its record is still open"),
    "an open record names it": (
        {"recorded": {**{v: recorded() for v in range(1, 6)}, 6: recorded(outcome="open", needs=(3,))}},
        "the open record of version 6 names it",
    ),
    "published lately": ({"stored": [stored(3, days=2)]}, "published on 2026-11-20"),
    "live lately": ({"history": LiveHistory(6, 5, {3: ago(3)})}, "last live on 2026-11-19"),
    "its record was written lately": ({"recorded": {3: recorded("rolled_back", days=5)}}, "its record on 2026-11-17"),
    "no record": ({"recorded": {}}, "it has no record"),
    "no manifest": ({"stored": [stored(3, published_at=None)]}, "it has no manifest"),
    "published in the future": ({"stored": [stored(3, days=-10)]}, "published on 2026-12-02"),
    "an open record of a version without files names it": (
        {"recorded": {3: recorded(), 9: recorded(outcome="open", needs=(3,))}, "stored": [stored(3)]},
        "the open record of version 9 names it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_what_is_needed_stays(case: str) -> None:
    """Each reason alone keeps a version, and is told."""
    changes, told = KEPT[case]
    one = plan(**changes)
    assert 3 not in deleted(one)
    assert told in reasons(one, 3)


def test_a_rolled_back_version_may_go() -> None:
    """It does not count among the newest promoted, and has its days as the others have."""
    one = plan(
        recorded={**{version: recorded() for version in (1, 3, 6)}, 5: recorded("rolled_back")},
        history=LiveHistory(6, 3, {}),
    )
    assert 5 in deleted(one)
    assert 3 not in deleted(one)


def test_a_deletion_that_was_broken_off_is_finished() -> None:
    """Whatever the policy says; but not while somebody names the version. One that is finished stays deleted."""
    half = stored(6, days=1, begun_at=ago(0.5), published_at=None)
    bare = stored(2, objects=0, size_bytes=0, begun_at=ago(7), published_at=None)
    one = plan(stored=[bare, half], history=LiveHistory(None, None, {}))
    assert deleted(one) == [6]
    assert "is finished now" in reasons(one, 6)
    assert [each.version for each in one.with_action("deleted")] == [2]
    named = plan(stored=[half], named={6: ["pinned"]}, history=LiveHistory(None, None, {}))
    assert deleted(named) == []
    assert reasons(named, 6) == "pinned; its deletion was started and is not finished"


def test_what_could_not_be_read_deletes_nothing() -> None:
    """The plan says what it was."""
    one = unreadable_plan("digits", POLICY, NOW, "the cluster does not answer")
    assert (one.versions, one.unreadable) == ((), "the cluster does not answer")


numbers = st.integers(1, 12)
moments = st.integers(-5, 120).map(ago)
facts = st.builds(
    ModelFacts,
    model=st.just("digits"),
    stored=st.lists(
        st.builds(
            StoredVersion,
            version=numbers,
            objects=st.integers(0, 5),
            size_bytes=st.integers(0, 10),
            published_at=st.none() | moments,
            begun_at=st.none() | moments,
        ),
        unique_by=lambda one: one.version,
    ),
    recorded=st.dictionaries(
        numbers,
        st.builds(
            Recorded,
            outcome=st.sampled_from(["open", "promoted", "refused", "rolled_back", "failed"]),
            standing=st.sampled_from(["", "promoted", "rolled_back"]),
            last_at=moments,
            needs=st.lists(numbers, max_size=2).map(tuple),
        ),
    ),
    history=st.builds(
        LiveHistory,
        live=st.none() | numbers,
        before=st.none() | numbers,
        left_at=st.dictionaries(numbers, moments),
    ),
    named=st.dictionaries(numbers, st.just(["somebody"])),
)
policies = st.builds(Retention, keep_promoted=st.integers(1, 12), keep_days=st.integers(1, 100))


@given(facts=facts, policy=policies)
def test_what_is_named_is_never_deleted(facts: ModelFacts, policy: Retention) -> None:
    """Nor is what is live or was before it, what an open record needs, or what nobody knows the fate of."""
    one = plan_retention(facts, policy, NOW)
    gone = set(deleted(one))
    assert gone.isdisjoint(facts.named)
    assert gone.isdisjoint({facts.history.live, facts.history.before})
    for version, told in facts.recorded.items():
        if told.outcome == "open":
            assert gone.isdisjoint({version, *told.needs})
    by_number = {each.version: each for each in facts.stored}
    for version in gone:
        assert by_number[version].begun_at or (by_number[version].published_at and version in facts.recorded)
    assert [each.version for each in one.versions] == sorted(by_number), "every version is on the plan"
    assert all(each.reasons for each in one.versions)
    assert ModelPlan.from_bytes(one.to_bytes(), "plan") == one


@given(facts=facts, one=policies, other=policies)
def test_a_policy_that_keeps_more_deletes_no_more(
    facts: ModelFacts, one: Retention, other: Retention
) -> None:
    """The plan is monotone in both of its numbers."""
    more = Retention(
        keep_promoted=max(one.keep_promoted, other.keep_promoted),
        keep_days=max(one.keep_days, other.keep_days),
    )
    assert set(deleted(plan_retention(facts, more, NOW))) <= set(deleted(plan_retention(facts, one, NOW)))


@given(facts=facts, policy=policies, version=numbers)
def test_one_more_name_deletes_no_more(facts: ModelFacts, policy: Retention, version: int) -> None:
    """Whatever is learnt of who uses a version only keeps."""
    before = set(deleted(plan_retention(facts, policy, NOW)))
    known = ModelFacts(
        facts.model, facts.stored, facts.recorded, facts.history, {**facts.named, version: ["x"]}
    )
    assert set(deleted(plan_retention(known, policy, NOW))) == before - {version}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff", b"[" * 200_000, b" " * (9 << 20), b'{"schema_version": 2}']
)
def test_a_plan_that_is_none_is_refused(content: bytes) -> None:
    """The error names it; no other error comes of it."""
    with pytest.raises(UserError, match="is not a valid plan for a model"):
        ModelPlan.from_bytes(content, "plan.json")
