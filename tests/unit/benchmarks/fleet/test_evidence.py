"""Which releases of a fleet broke a promise, and which did not."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.fleet.answers import FleetAnswer
from benchmarks.fleet.evidence import Evidence, Excuse, violations
from benchmarks.fleet.plan import KINDS, STEPS, Plan, draw
from benchmarks.fleet.report import Report, describe

SERVERS = ("a", "b", "c")


def answer(
    server: str, version: int | None, at: float, *, protocol: str = "http", **more: Any
) -> FleetAnswer:
    """Return an answer that took 2 ms."""
    return FleetAnswer(server, protocol, at, at + 0.002, version, more.pop("reported", version), **more)


def at_rest(version: int) -> list[FleetAnswer]:
    """Return an answer of each server over each protocol, late."""
    return [answer(one, version, 90.0, protocol=protocol) for one in SERVERS for protocol in ("http", "grpc")]


def kept(**changes: Any) -> Evidence:
    """Return a run of a killed server that kept every promise: all have version 2 in the end."""
    plan = Plan(7, "server_killed", "commit", 1, 10.0, 2.0)
    given: dict[str, Any] = {
        "outcomes": ["committed"],
        "happened": True,
        "after": at_rest(2),
        "answers": [answer("a", 1, 1.0), answer("b", 1, 1.0), *at_rest(2)],
        "loaded": {one: {"digits": [2]} for one in SERVERS},
    }
    return Evidence(plan, 1, 2, SERVERS, **(given | changes))


def test_a_run_that_kept_its_promises_has_no_violation() -> None:
    """One version on all, nothing failed."""
    assert violations(kept()) == []
    assert violations(kept(outcomes=["killed", "taken_back"], after=at_rest(1), answers=at_rest(1))) == []


def test_a_fleet_of_two_versions_is_caught() -> None:
    """A server that answers another version than the others is named."""
    mixed = [one for one in at_rest(2) if one.server != "c"]
    mixed += [answer("c", 1, 90.0), answer("c", 1, 90.0, protocol="grpc")]
    found = violations(kept(after=mixed))
    assert found == [
        "c answers 1 over http, not 2 (committed)",
        "c answers 1 over grpc, not 2 (committed)",
    ]


def test_a_fleet_on_the_other_version_than_was_said_is_caught() -> None:
    """All have the new version, and the controller says that it took it back."""
    assert len(violations(kept(outcomes=["taken_back"]))) == 6


def test_a_server_that_does_not_answer_at_rest_is_caught() -> None:
    """A server that counts has to answer, over both protocols."""
    silent = [one for one in at_rest(2) if (one.server, one.protocol) != ("b", "grpc")]
    assert violations(kept(after=silent)) == ["b answers nothing over grpc, not 2 (committed)"]


def test_what_is_left_loaded_on_one_server_is_caught() -> None:
    """A version that was not unloaded on one of them."""
    loaded = {"a": {"digits": [2]}, "b": {"digits": [1, 2]}, "c": {"digits": [2]}}
    assert violations(kept(loaded=loaded)) == [
        "a, c: {'digits': [2]} is loaded",
        "b: {'digits': [1, 2]} is loaded",
    ]
    assert violations(kept(loaded=dict.fromkeys(SERVERS))) == ["a, b, c: no answer is loaded"]


def test_a_server_that_died_by_itself_is_caught() -> None:
    """Nobody killed it: whatever was done to it has."""
    assert violations(kept(died={"c": "exit code -11; loading"})) == ["c died: exit code -11; loading"]


def test_only_the_server_of_the_fault_may_be_left_out() -> None:
    """A controller that leaves out whatever is in its way has released nothing."""
    assert violations(kept(not_counted={"b": "it was unreachable"})) == []
    assert violations(kept(not_counted={"c": "it was slow"})) == ["c does not count: it was slow"]
    of_controller = Plan(7, "controller_killed", "commit", 1, 10.0, 2.0)
    assert violations(_of(of_controller)) == ["b does not count: unreachable"]


def _of(plan: Plan) -> Evidence:
    seen = kept(not_counted={"b": "unreachable"})
    seen.plan = plan
    return seen


@pytest.mark.parametrize(
    ("excuse", "failures"),
    [
        (None, 2),
        (Excuse("b", 10.0, 20.0), 1),
        (Excuse("a", 10.0, 20.0), 2),
        (Excuse("b", 10.0, 31.0), 0),
    ],
)
def test_a_failed_request_is_excused_while_its_server_was_dead(excuse: Excuse | None, failures: int) -> None:
    """Neither before, nor after, nor at another server."""
    bad = [answer("b", None, 15.0, error="refused"), answer("b", None, 30.0, error="HTTP 404")]
    seen = kept(answers=[*at_rest(2), *bad], excuses=[] if excuse is None else [excuse])
    assert len(seen.failed()[0]) == failures
    assert bool(violations(seen)) is bool(failures)


def test_an_answer_that_tells_another_version_than_made_it_is_caught() -> None:
    """What users are told is the version that answered them."""
    assert violations(kept(answers=[answer("a", 2, 5.0, reported=1)])) == [
        "1 answers reported another version than the one that made them: [('a', 'http', 2, 1)]"
    ]


def test_an_unfinished_release_and_a_failed_one_are_caught() -> None:
    """A release has to end, and to say committed or taken back."""
    assert "the release has not ended in time" in violations(kept(finished=False))
    assert "the release ended killed → failed" in violations(kept(outcomes=["killed", "failed"]))
    assert "the release ended without a word" in violations(kept(outcomes=[]))


def test_consecutive_seeds_go_through_all_kinds_and_steps() -> None:
    """As many runs as there are pairs of them meet each once, and a seed always draws the same."""
    count = len(KINDS) * len(STEPS)
    plans = [draw(seed, 8) for seed in range(5, 5 + count)]
    assert len({(one.kind, one.step) for one in plans}) == count
    assert {one.server for one in plans} == set(range(8))
    assert draw(17, 8) == draw(17, 8)


def test_the_report_counts_by_fault_and_step_and_says_how_to_repeat() -> None:
    """What was broken is named with its seed, and a fault that never took place is counted apart."""
    report, broken = Report(), kept(outcomes=["failed"])
    report.add(kept(), [])
    report.add(broken, violations(broken))
    report.add(kept(happened=False), [])
    table = report.table()
    row = next(line for line in table.splitlines() if line.startswith("server_killed"))
    assert row.split()[1:] == ["0", "0", "0", "2", "0", "1"]
    assert "3 runs (2 committed, 1 failed), 1 with a broken promise; in 1 the release" in table
    assert "python -m benchmarks.fleet --runs 1 --seed 7" in table
    assert "BROKEN: the release ended failed" in describe(broken, violations(broken), [(1.0, "began")])
