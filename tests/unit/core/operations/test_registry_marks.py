"""What the registry is told: aliases and tags, and only what is different."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from slipway_core.operations.registry_marks import (
    EVENTS_TAG,
    KEEP,
    Change,
    Served,
    alias_changes,
    arrival_tags,
    record_tags,
    served_versions,
    tag_changes,
)
from slipway_core.record.state import Rejection, ReleaseState
from slipway_core.rollout.dialects.knative.observed import KnativeObserved
from slipway_core.rollout.observation import STABLE_URI, Observed

BEGUN = datetime(2026, 1, 2, tzinfo=UTC)
STATE = ReleaseState(
    model="digits", version=3, release_id="digits-3-abc", outcome="promoted", started_at=BEGUN
)
OBSERVED = KnativeObserved(
    name="digits",
    namespace="models",
    resource_version="1",
    generation=1,
    storage_uri="s3://b/models/digits/3/repository",
    canary_percent=None,
    latest_created="r",
    latest_ready="r",
    latest_rolledout="r",
)


def notes(version: int) -> dict[str, str]:
    """The annotation that names the version before."""
    return {STABLE_URI: f"s3://b/models/digits/{version}/repository"}


@pytest.mark.parametrize(
    ("observed", "served"),
    [
        (None, Served(None, None)),
        (OBSERVED, Served(3, None)),
        (replace(OBSERVED, annotations=notes(2)), Served(3, 2)),
        (replace(OBSERVED, annotations=notes(3)), Served(3, None)),
        (replace(OBSERVED, annotations=notes(2), canary_percent=20), Served(2, KEEP)),
        (replace(OBSERVED, canary_percent=20), Served(KEEP, KEEP)),
        (replace(OBSERVED, deleting=True), Served(KEEP, KEEP)),
        (replace(OBSERVED, unreadable=("spec.canary",)), Served(KEEP, KEEP)),
        (replace(OBSERVED, storage_uri="s3://b/elsewhere"), Served(None, None)),
        (replace(OBSERVED, storage_uri="s3://b/models/magika/3/repository"), Served(None, None)),
    ],
)
def test_which_versions_the_cluster_has(observed: Observed | None, served: Served) -> None:
    """During a canary the stable one is live; what cannot be told is not told."""
    assert served_versions("digits", observed) == served


@pytest.mark.parametrize(
    ("served", "known", "standing", "changes"),
    [
        (Served(3, 2), {1, 2, 3}, "promoted", [Change("live", "3"), Change("previous", "2")]),
        (Served(1, None), {1, 2, 3}, "promoted", []),
        (Served(3, None), {1, 2, 3}, "", [Change("live", None)]),
        (Served(3, None), {1, 2, 3}, "rolled_back", [Change("live", None)]),
        (Served(9, None), {1, 2, 3}, "promoted", [Change("live", None)]),
        (Served(None, None), {1, 2, 3}, "", [Change("live", None)]),
        (Served(KEEP, KEEP), {1, 2, 3}, "", []),
        (Served(2, KEEP), {1, 2, 3}, "promoted", [Change("live", "2")]),
    ],
)
def test_aliases_say_what_is_so(
    served: Served, known: set[int], standing: str, changes: list[Change]
) -> None:
    """Only a promoted version that the registry has is called live; what is so already is left alone."""
    assert alias_changes({"live": 1, "candidate": 3}, served, known, standing) == changes


def test_tags_tell_the_outcome() -> None:
    """With where to read of it; a tag that says nothing is not there."""
    tags = record_tags(
        replace(STATE, promoted_sha256="p", verified_sha256="v"), "s3://b/records/digits/3/", 7
    )
    assert tags == {
        "slipway.outcome": "promoted",
        "slipway.release": "digits-3-abc",
        "slipway.record": "s3://b/records/digits/3/",
        "slipway.manifest_sha256": "p",
        "slipway.rejected": None,
        "slipway.record_events": "7",
    }
    assert record_tags(replace(STATE, verified_sha256="v"), "", 7)["slipway.manifest_sha256"] == "v"
    assert record_tags(STATE, "", 7)["slipway.manifest_sha256"] is None
    unbegun = record_tags(replace(STATE, started_at=None), "", 1)
    assert (unbegun["slipway.outcome"], unbegun["slipway.release"]) == (None, None)
    rejection = Rejection(seq=8, at=BEGUN, reason="x" * 9000, by="bob")
    told = record_tags(replace(STATE, rejection=rejection), "", 8)["slipway.rejected"]
    assert told is not None
    assert told.startswith("rejected by bob")
    assert len(told) == 500


def test_only_what_differs_is_set() -> None:
    """The number of events last: a sync that was broken off before is not taken for a whole one."""
    wanted = {EVENTS_TAG: "7", "slipway.outcome": "promoted", "slipway.rejected": None}
    assert tag_changes({**wanted, "own": "x", "slipway.rejected": "why"}, wanted) == [  # type: ignore[dict-item]
        Change("slipway.rejected", None)
    ]
    assert tag_changes({}, wanted) == [Change("slipway.outcome", "promoted"), Change(EVENTS_TAG, "7")]
    assert tag_changes({EVENTS_TAG: "7", "slipway.outcome": "promoted"}, wanted) == []


def test_tags_tell_of_the_arrival() -> None:
    """That it did, or why not."""
    assert arrival_tags(None) == {"slipway.arrival": "arrived"}
    assert arrival_tags("y" * 900)["slipway.arrival"] == f"refused: {'y' * 491}"
