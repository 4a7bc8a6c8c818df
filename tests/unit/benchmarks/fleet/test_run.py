"""A run of one release and its fault: when the fault happens, when it is mended, who is tried again, who joins."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks.fleet.plan import Plan
from benchmarks.fleet.run import FleetRun
from benchmarks.fleet.suite import broken_of
from tests.support.fleet.fake_lab import FakeLab, all_to, nothing, said

FORWARD = [("prepare", nothing), ("commit", nothing), ("commit", all_to(2)), ("drain", nothing)]


def run_of(lab: FakeLab, kind: str, step: str, *, later_ms: float = 0.0) -> FleetRun:
    """Return the run of a fault at the second server."""
    return FleetRun(cast("Any", lab), Plan(7, kind, step, 1, later_ms, 0.0))


def told(run: FleetRun) -> list[str]:
    """Return what happened, in order, each in a word."""
    return [text.split()[0] for _, text in run.timeline]


def test_a_fault_happens_when_its_step_has_begun_and_is_mended_later() -> None:
    """Neither before the step, nor twice where the step is taken again."""
    lab = FakeLab([(FORWARD, said("committed"))])
    run = run_of(lab, "server_stalled", "commit")
    seen = run.run()
    assert lab.servers[1].done == ["stall", "resume"]
    order = told(run)
    assert order.index("prepare") < order.index("commit") < order.index("FAULT") < order.index("mended")
    assert (seen.happened, seen.outcomes, seen.settled) == (True, ["committed"], 2)
    assert broken_of(run, seen) == []


def test_a_fault_whose_step_never_comes_does_not_happen() -> None:
    """It is said, and nothing is mended."""
    lab = FakeLab([([("prepare", nothing), ("commit", all_to(2))], said("committed"))])
    seen = run_of(lab, "server_stalled", "drain").run()
    assert (seen.happened, lab.servers[1].done, seen.excuses) == (False, [], [])


def test_a_killed_controller_is_run_again_with_the_same_run() -> None:
    """As a task that was killed is."""
    lab = FakeLab([(FORWARD, said("committed")), (FORWARD, said("committed"))])
    run = run_of(lab, "controller_killed", "prepare")
    seen = run.run()
    assert seen.outcomes == ["killed", "committed"]
    assert lab.released == [(2, "7"), (2, "7")]
    assert broken_of(run, seen) == []


def test_a_controller_that_raises_is_not_taken_for_killed() -> None:
    """It said nothing, nobody killed it, and it is run again."""
    lab = FakeLab([([("prepare", nothing)], cast("Any", None)), (FORWARD, said("committed"))])
    assert run_of(lab, "server_stalled", "drain").run().outcomes == ["raised", "committed"]


def test_a_killed_server_that_comes_back_empty_has_to_join() -> None:
    """It counts again when the settled version was released once more, and its failures until then are excused."""
    lab = FakeLab([(FORWARD, said("committed")), ([("commit", all_to(2))], said("committed"))])
    run = run_of(lab, "server_killed", "drain")
    seen = run.run()
    assert lab.servers[1].done == ["kill", "start"]
    assert seen.not_counted == {"b": "it came back empty"}
    assert [one.server for one in seen.excuses] == ["b"]
    assert broken_of(run, seen) == []
    assert lab.released == [(2, "7"), (2, "7-join")]


def test_a_server_that_does_not_join_is_a_broken_promise() -> None:
    """It would be left out for ever."""
    lab = FakeLab([(FORWARD, said("committed")), ([("wait", nothing)], said("committed", b="unreachable"))])
    run = run_of(lab, "server_killed", "drain")
    assert broken_of(run, run.run()) == ["b has not joined: unreachable: no answer"]


def test_a_stalled_server_that_crashes_when_it_goes_on_is_started_again() -> None:
    """Without a release it would have crashed too."""
    lab = FakeLab([(FORWARD, said("committed")), ([("commit", all_to(2))], said("committed"))])
    server = lab.servers[1]
    server.resume = server.kill  # type: ignore[method-assign]
    run = run_of(lab, "server_stalled", "drain")
    seen = run.run()
    assert (seen.crashed, seen.died, server.done) == (True, {}, ["stall", "kill", "start"])
    assert broken_of(run, seen) == []


@pytest.mark.parametrize("kind", ["out_of_memory", "server_stalled"])
def test_a_server_that_dies_though_nobody_killed_it_is_caught(kind: str) -> None:
    """The release has killed it."""

    def die(lab: FakeLab) -> None:
        lab.servers[0].kill()

    lab = FakeLab([([("prepare", die), ("commit", all_to(2))], said("committed", a="unreachable"))])
    lab.servers[1].limit_memory = lab.servers[1].free_memory = lambda: None  # type: ignore[attr-defined]
    run = run_of(lab, kind, "prepare")
    found = broken_of(run, run.run())
    assert "a died: exit code -11" in found
    assert "a does not count: unreachable: no answer" in found
