"""What came of a release to a fleet, in words."""

from __future__ import annotations

from slipway_core.fleet.outcome import FleetOutcome, Outcome, ServerOutcome, ServerResult


def outcome(kind: Outcome, *states: ServerOutcome, reasons: tuple[str, ...] = ()) -> FleetOutcome:
    """Return an outcome with a server in each of these states."""
    servers = {
        f"s{number}": ServerResult(state=state, version=2 if state == "committed" else None)
        for number, state in enumerate(states)
    }
    return FleetOutcome(
        fleet="edge",
        model="digits",
        version=2,
        from_version=1,
        outcome=kind,
        servers=servers,
        reasons=reasons,
    )


def test_each_outcome_is_told_with_its_reasons() -> None:
    """How many servers have the version counts those that were not fenced."""
    assert outcome("committed", "committed", "committed").summary == "on 2 of 2 servers"
    fenced = outcome("committed", "committed", "fenced", reasons=("fenced: s1 does not answer",))
    assert fenced.summary == "on 1 of 2 servers. fenced: s1 does not answer"
    back = outcome("taken_back", "taken_back", "unreachable", reasons=("s1: no answer for 30 s",))
    assert (
        back.summary == "rolled back: each server that answers has what it had before. s1: no answer for 30 s"
    )
    assert (
        outcome("failed", "failed", "taken_back").summary == "neither on all servers nor rolled back on all"
    )


def test_server_that_was_lost_after_the_commit_is_missing() -> None:
    """It counts, and nobody knows what it serves; one that is fenced, or has something left loaded, is not missing."""
    lost = outcome("committed", "committed", "unreachable", reasons=("s1: no answer for 30 s",))
    assert (lost.missing, lost.is_whole) == (("s1",), False)
    assert lost.summary == "on 1 of 2 servers. s1: no answer for 30 s"
    assert outcome("committed", "committed", "fenced").is_whole
    undrained = ServerResult(state="failed", version=2, reason="'digits_v1' is still asked")
    kept = outcome("committed", "committed").model_copy(update={"servers": {"s0": undrained}})
    assert (kept.is_whole, kept.summary) == (True, "on 1 of 1 servers")
    assert not outcome("committed").is_whole, "no server was asked"
