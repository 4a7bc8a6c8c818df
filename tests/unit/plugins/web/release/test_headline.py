"""Where a release stands, in one sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from slipway.web.release.headline import headline
from slipway_core.read_model.documents import (
    ApprovalLine,
    OpenRelease,
    RejectionLine,
    VersionLine,
)
from slipway_core.read_model.live import LiveDocument

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _line(**changes: Any) -> VersionLine:
    return VersionLine(model="digits", version=3, release_id="digits-3", **changes)


def _open(**changes: Any) -> OpenRelease:
    return OpenRelease(version=3, release_id="digits-3", **changes)


UNDER_WAY: list[tuple[dict[str, Any], str, str]] = [
    ({}, "under way", "The release of version 3 is starting. It has no users."),
    ({"stage": "validate"}, "under way", "Current stage: validation. Version 3 has no users."),
    (
        {"stage": "canary", "weight_intended": 20, "weight_observed": 20, "verdict": "pass"},
        "canary",
        "Version 3 has 20 % of the users. The judge sees no harm so far.",
    ),
    (
        {"stage": "canary", "weight_intended": 20, "weight_observed": None},
        "canary",
        "Version 3 has 20 % of the users. The judge has no data yet.",
    ),
    (
        {"paused": "ben: a look", "weight_observed": 20},
        "paused",
        "Version 3 stays at 20 %: paused by a person.",
    ),
    (
        {"held": "frozen", "weight_observed": 5},
        "held",
        "Version 3 has 5 % of the users and is not raised further.",
    ),
    ({"held": "frozen"}, "held", "Version 3 has no users and is not raised further."),
    (
        {"waits_for_approval": "canary"},
        "needs a person",
        "Version 3 needs approval before it gets its first users.",
    ),
    (
        {"waits_for_approval": "promotion"},
        "needs a person",
        "Version 3 needs approval before it gets all users.",
    ),
    ({"rolling_back": True, "weight_observed": 20}, "going back", "Users are being moved off version 3."),
    (
        {"is_rollback": True, "stable_version": 2},
        "rollback",
        "All users are being moved back from version 3 to version 2.",
    ),
    (
        {"is_rollback": True, "stable_version": 4, "waits_for_approval": "promotion"},
        "needs a person",
        "The rollback to version 4 needs another person's approval.",
    ),
]


@pytest.mark.parametrize(("stands", "word", "told"), UNDER_WAY)
def test_a_release_under_way_is_told_in_a_sentence(stands: dict[str, Any], word: str, told: str) -> None:
    """Which share of the users it has, what it waits for, and what the judge says."""
    found = headline(_line(), _open(**stands), None)
    assert (found.word, found.sentence) == (word, told)


ENDED: list[tuple[dict[str, Any], str, str]] = [
    ({"outcome": "promoted"}, "promoted", "Version 3 was promoted: it got all users."),
    (
        {"outcome": "promoted", "approvals": (ApprovalLine(before="canary", by="ben", at=NOW),)},
        "promoted",
        "Version 3 was promoted: it got all users; approved by ben.",
    ),
    (
        {"outcome": "rolled_back", "rolled_back_by": "judge"},
        "rolled back",
        "Version 3 was rolled back by the judge.",
    ),
    (
        {"outcome": "rolled_back", "rolled_back_by": "cancellation"},
        "rolled back",
        "Version 3 was rolled back because the release was stopped.",
    ),
    ({"outcome": "rolled_back"}, "rolled back", "Version 3 was rolled back."),
    (
        {"outcome": "refused", "refused_by": "validate"},
        "refused",
        "Version 3 was refused by validation. It has had no users.",
    ),
    (
        {"outcome": "refused", "refused_by": "approve"},
        "declined",
        "Version 3 was declined before the canary. It has had no users.",
    ),
    (
        {"outcome": "refused", "refused_by": "approve_promotion", "candidate_requests": 1200},
        "declined",
        "Version 3 was declined before the promotion. It answered 1,200 requests.",
    ),
    ({"outcome": "cancelled"}, "stopped", "The release of version 3 was stopped. It has had no users."),
    (
        {"outcome": "failed", "candidate_requests": 1200},
        "failed",
        "The release of version 3 failed. It answered 1,200 requests.",
    ),
    (
        {"rejected_only": True, "rejection": RejectionLine(sentence="rejected by anna", at=NOW)},
        "rejected",
        "Version 3 was rejected before it was released.",
    ),
    ({"unreadable": "a gap"}, "cannot be read", "The record of version 3 cannot be read."),
]


@pytest.mark.parametrize(("ended", "word", "told"), ENDED)
def test_a_release_that_is_over_says_how_and_by_whom(ended: dict[str, Any], word: str, told: str) -> None:
    """Outcome, who decided, and whether users met it; the record's reason beside it."""
    found = headline(_line(reason="why", **ended), None, None)
    assert (found.word, found.sentence) == (word, told)


def test_a_candidate_that_is_not_up_yet_says_what_it_waits_for() -> None:
    """In the words of the scheduler and the kubelet, which the watch has read."""
    live = LiveDocument(
        model="digits",
        version=3,
        release_id="digits-3",
        written_at=NOW,
        weights=(5, 50),
        waiting="the pod a: Pending: no node",
    )
    found = headline(_line(), _open(stage="canary", weight_intended=5, weight_observed=0), live)
    assert (found.word, found.reason) == ("coming up", "the pod a: Pending: no node")
    assert found.sentence == "Version 3 has no users: it waits for its next weight."
    first = live.model_copy(update={"weights": ()})
    assert headline(_line(), _open(stage="canary"), first).sentence.endswith("it waits for its pods.")


def test_a_decision_to_roll_back_is_told_before_the_record_has_it() -> None:
    """The watch takes users off at once, and its document says so first."""
    live = LiveDocument(
        model="digits",
        version=3,
        release_id="digits-3",
        written_at=NOW,
        decision="roll_back",
        reason="more errors",
    )
    found = headline(_line(), _open(stage="canary", weight_observed=20), live)
    assert (found.word, found.sentence) == ("going back", "Users are being moved off version 3.")
    assert found.reason == "more errors"


def test_what_the_watch_wrote_last_counts_first() -> None:
    """A pause and a verdict are in the live document before the model's document has them."""
    live = LiveDocument(
        model="digits", version=3, release_id="digits-3", written_at=NOW, verdict="fail", reason="errors"
    )
    stands = _open(stage="canary", weight_observed=20, verdict="pass")
    assert headline(_line(), stands, live).sentence.endswith("The judge sees harm.")
    assert headline(_line(), stands, live).reason == "errors"
    paused = live.model_copy(update={"paused": "ben: a look"})
    assert headline(_line(), stands, paused).word == "paused"
