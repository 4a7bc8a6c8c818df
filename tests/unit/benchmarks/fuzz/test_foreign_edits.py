"""The fuzzer of people's edits finds the holes that it is for: decisions on a status that is older than the spec."""

from __future__ import annotations

import pytest

from benchmarks.fuzz.foreign_edits import play
from benchmarks.fuzz.target import BrokenPromiseError
from slipway_core.rollout.dialects.knative import back
from slipway_core.rollout.dialects.standard import back as standard_back

BESIDE_A_PERSON = ["turn", "all act", "all act", "names good", "turn"]


def test_a_release_of_the_percent_by_the_status_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the newest ready revision for the good version leads everybody to the bad one."""
    play("Knative", BESIDE_A_PERSON)
    monkeypatch.setattr(back, "is_of_the_rollback", lambda observed, uri: observed.candidate_ready)
    with pytest.raises(BrokenPromiseError, match="canary, roll back: release"):
        play("Knative", BESIDE_A_PERSON)


@pytest.mark.parametrize("dialect", ["Knative", "Standard"])
def test_an_end_that_is_told_too_early_is_found(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person names the good version where the bad one has everybody, and nobody has acted on it."""
    play(dialect, ["names good"])
    monkeypatch.setattr(back, "live_doubt", lambda observed, uri: "")
    monkeypatch.setattr(standard_back, "unproved", lambda view, backend, uri: "")
    with pytest.raises(BrokenPromiseError, match="promoted, roll back: "):
        play(dialect, ["names good"])
