"""How a model's releases go, and when the one under way may end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway_core.read_model.delivery import delivery_of, expected_end
from slipway_core.read_model.documents import GateLine, ModelDocument, OpenRelease, VersionLine

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
LEFT = ["validate", "canary", "canary", "promote"]


def _after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def _line(version: int, outcome: str = "promoted", **changes: Any) -> VersionLine:
    return VersionLine(
        model="digits",
        version=version,
        release_id=f"digits-{version}",
        outcome=outcome,  # type: ignore[arg-type] # each test names an outcome
        **({"ended": {outcome: 1}, "weights": (5,)} | changes),
    )


def _gates(**seconds: float) -> tuple[GateLine, ...]:
    return tuple(GateLine(stage=name, outcome="passed", seconds=value) for name, value in seconds.items())


def _document(*lines: VersionLine) -> ModelDocument:
    return ModelDocument(
        model="digits", written_at=NOW, versions=tuple(sorted(lines, key=lambda one: -one.version))
    )


def _end(document: ModelDocument, **changes: Any) -> float | None:
    release = OpenRelease(version=9, release_id="digits-9", **({"steps": 1} | changes))
    found = expected_end(document, release, LEFT, NOW)
    return None if found is None else (found.at - NOW).total_seconds()


def test_lead_time_is_the_median_from_landed_to_promoted() -> None:
    """A version whose landing is not known, and one that was not promoted, do not count."""
    found = delivery_of(
        _document(
            _line(1, landed_at=NOW, finished_at=_after(100)),
            _line(2, landed_at=NOW, finished_at=_after(300)),
            _line(3, landed_at=NOW, finished_at=_after(90_000)),
            _line(4, finished_at=_after(5)),
            _line(5, "refused", landed_at=NOW, finished_at=_after(1)),
        )
    )
    assert (found.lead_time_s, found.promoted) == (300, 3)


def test_failures_are_of_what_users_met() -> None:
    """A version that a gate refused met nobody; each attempt counts."""
    lines = [_line(1), _line(2), _line(3, ended={"rolled_back": 1, "promoted": 1}), _line(4, "refused")]
    found = delivery_of(_document(*lines))
    assert (found.failure_percent, found.met_users) == (25.0, 4)


def test_recovery_is_from_the_first_bad_answer_to_weight_0() -> None:
    """Where no bad answer was counted it begins with the rollback."""
    found = delivery_of(
        _document(
            _line(1, "rolled_back", first_bad_at=NOW, rollback_started_at=_after(5), weight_0_at=_after(8)),
            _line(2, "rolled_back", rollback_started_at=_after(5), weight_0_at=_after(7)),
            _line(3, "rolled_back", rollback_started_at=_after(5)),
        )
    )
    assert (found.recover_s, found.recovered) == (5.0, 2)


def test_of_no_releases_there_are_no_figures() -> None:
    """Nothing counted is not 0 %."""
    found = delivery_of(_document())
    assert (found.lead_time_s, found.failure_percent, found.recover_s) == (None, None, None)


def test_a_release_is_expected_to_go_as_those_before_it() -> None:
    """Each stage that is left takes its median; the one under way less what it has taken already."""
    earlier = [
        _line(version, gates=_gates(convert=60, validate=v, canary=600, promote=10))
        for version, v in ((1, 20), (2, 40), (3, 90))
    ]
    own = _line(9, "open", gates=(GateLine(stage="validate", outcome="running", started_at=_after(-15)),))
    assert _end(_document(*earlier, own)) == (40 - 15) + 600 + 10


def test_a_stage_that_takes_longer_than_ever_ends_now() -> None:
    """It is not expected to have ended in the past."""
    own = _line(9, "open", gates=(GateLine(stage="validate", outcome="running", started_at=_after(-900)),))
    assert _end(_document(_line(1, gates=_gates(validate=20, canary=600, promote=10)), own)) == 610


def test_without_promoted_releases_of_the_same_plan_nothing_is_expected() -> None:
    """The first release of a model, one after rollbacks alone, or with another number of steps, has no expected end."""
    gates = _gates(validate=20, canary=600, promote=10)
    for earlier in ([], [_line(1, "rolled_back", gates=gates)], [_line(1, gates=gates, weights=(5, 50))]):
        assert _end(_document(*earlier)) is None


@pytest.mark.parametrize(
    "waiting",
    [
        {"waits_for_approval": "canary"},
        {"held": "frozen"},
        {"paused": "lunch"},
        {"rolling_back": True},
        {"is_rollback": True},
    ],
    ids=lambda one: next(iter(one)),
)
def test_nothing_is_expected_of_a_person(waiting: dict[str, Any]) -> None:
    """While somebody is waited for, or users are led back, no end is named."""
    assert _end(_document(_line(1, gates=_gates(validate=20, canary=600, promote=10))), **waiting) is None
