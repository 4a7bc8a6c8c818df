"""Which canaries the guard leaves alone, and that it says so."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.rollout.dialects.registry import observe
from slipway_core.rollout.next_action import (
    Observed,
    Promote,
)
from slipway_core.rollout.observation import CANDIDATE_URI as CANDIDATE_NOTE
from slipway_core.rollout.reading import Evidence
from slipway_guard.watch import Sight
from tests.support.guard.guarded_canary import (
    CANDIDATE_URI,
    LEASE_S,
    NAME,
    NAMESPACE,
    SERVICES,
    STABLE_URI,
    GuardedCanary,
    StoreCluster,
    service_manifest,
)
from tests.support.guard.lines import Lines


def test_a_version_that_was_promoted_meanwhile_stays(lines: Lines) -> None:
    """A promotion that was accepted between the guard's mark and its patch is not undone."""
    canary = GuardedCanary()
    cluster = StoreCluster(canary)
    cluster.before_write["patch_service"] = lambda: canary.drive(Promote(CANDIDATE_URI))
    guard = canary.guard(cluster)
    canary.pass_time(LEASE_S + 5, guard)
    assert canary.candidate_share() == 100
    assert cluster.writes == ["patch_lease"]
    assert "over_without_guard" in [line["event"] for line in lines()]
    assert guard.look() == Sight()


def test_canaries_of_others_are_none_of_the_guards_business() -> None:
    """A percent that somebody set by hand, on an object without our notes, stays as it is for ever."""
    canary = GuardedCanary(weight=0, with_lease=False)
    canary.store.create(service_manifest("other"))
    canary.reconcile()
    for name in (NAME, "other"):
        model = {"model": {"storageUri": CANDIDATE_URI}, "canaryTrafficPercent": 30}
        canary.store.merge_patch(SERVICES, NAMESPACE, name, {"spec": {"predictor": model}})
    cluster = StoreCluster(canary)
    canary.pass_time(5 * LEASE_S, canary.guard(cluster))
    assert cluster.writes == []
    assert canary.observed("other").canary_percent == 30


def test_a_canary_that_somebody_changed_is_left_alone_and_told_of(lines: Lines) -> None:
    """A third storageUri is nobody's the guard knows: lease and object stay as they are, and the log says why."""
    canary = GuardedCanary()
    third = {"spec": {"predictor": {"model": {"storageUri": "s3://third"}}}}
    canary.store.merge_patch(SERVICES, NAMESPACE, NAME, third)
    canary.reconcile()
    cluster = StoreCluster(canary)
    guard = canary.guard(cluster)
    canary.pass_time(LEASE_S + 30, guard)
    assert cluster.writes == []
    assert guard.look().left_alone == 1
    told = [line for line in lines() if line["event"] == "left_alone"]
    assert len(told) == 1
    assert "s3://third" in told[0]["found"]


def test_a_canary_without_a_stable_version_in_its_notes_is_left_alone() -> None:
    """Where nothing says what to go back to, nothing is done."""
    canary = GuardedCanary()
    notes = {"metadata": {"annotations": {"slipway.dev/stable-uri": None}}}
    canary.store.merge_patch(SERVICES, NAMESPACE, NAME, notes)
    cluster = StoreCluster(canary)
    guard = canary.guard(cluster)
    canary.pass_time(LEASE_S + 10, guard)
    assert cluster.writes == []
    assert guard.look() == Sight(canaries=1, left_alone=1, longest_lease_s=LEASE_S)


def test_an_object_that_cannot_be_understood_does_not_keep_the_others_from_their_guard(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broken InferenceService is logged; the canary of another one is ended all the same."""
    canary = GuardedCanary()
    canary.store.create(service_manifest("a-broken-one"))

    def break_down(isvc: dict[str, Any], evidence: Evidence) -> Observed:
        if isvc["metadata"]["name"] == "a-broken-one":
            raise ValueError("a fault of the program")
        return observe(isvc, evidence)

    monkeypatch.setattr("slipway_guard.watch.observe", break_down)
    guard = canary.guard()
    for _ in range(LEASE_S + 5):
        canary.now_s += 1
        guard.look()
    assert canary.observed().canary_percent == 0
    assert {"not_understood", "canary_ended"} <= {line["event"] for line in lines()}


def test_an_inference_service_that_was_deleted_is_forgotten() -> None:
    """A deletion in the midst of it leaves nothing to do."""
    canary = GuardedCanary()
    canary.controller_is_alive = False
    guard = canary.guard()
    canary.pass_time(LEASE_S + 3, guard)
    assert guard.look().ending == 1
    canary.store.delete(SERVICES, NAMESPACE, NAME)
    assert guard.look() == Sight()


def test_a_good_version_on_its_way_back_is_no_canary() -> None:
    """Where the notes call one version both candidate and stable, a rollback is being finished."""
    canary = GuardedCanary(with_lease=False)
    notes = {"metadata": {"annotations": {CANDIDATE_NOTE: STABLE_URI}}}
    canary.store.merge_patch(SERVICES, NAMESPACE, NAME, notes)
    assert canary.guard().look() == Sight()
