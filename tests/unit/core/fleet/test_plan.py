"""What is done next with the servers of a fleet, whatever fails and whenever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.fleet.plan import FleetRun, Phase, ServerView, next_step
from slipway_core.fleet.policy import FleetPolicy
from tests.support.fleet.simulation import NEW, OLD, SimulatedFleet, SimulatedServer

FAIL = FleetPolicy(unreachable_s=5, settle_limit_s=10)
FENCE = FleetPolicy(unreachable_s=5, settle_limit_s=10, on_unreachable="fence", least_servers=2)


def undisturbed(fleet: SimulatedFleet, number: int) -> None:
    """Change nothing."""


def test_all_servers_get_the_version() -> None:
    """Without a failure each server is prepared, verified, changed and drained, in this order."""
    fleet = SimulatedFleet(3, FAIL, undisturbed)
    last = fleet.run()
    acts = [step.act if step.act != "enter" else f"enter {step.phase}" for step in fleet.steps]
    assert acts == ["prepare", "verify", "enter commit", "commit", "enter drain", "drain", "finish"]
    assert (last.outcome, last.reasons) == ("committed", ())
    assert all(one.serving == NEW and one.loaded == {NEW} for one in fleet.servers.values())


def test_version_that_is_there_already_changes_nothing() -> None:
    """Where all servers serve the version, none is asked to load or unload anything."""
    fleet = SimulatedFleet(2, FAIL, undisturbed)
    for one in fleet.servers.values():
        one.serving, one.loaded = NEW, {NEW}
    assert fleet.run().outcome == "committed"
    assert [step.act for step in fleet.steps] == ["verify", "enter", "enter", "finish"]


def test_one_that_is_wrong_takes_all_back() -> None:
    """A server whose configuration differs ends the release before any user meets the version."""
    fleet = SimulatedFleet(3, FAIL, undisturbed)
    fleet.servers["s1"].is_wrong = True
    last = fleet.run()
    assert last.outcome == "taken_back"
    assert "commit" not in [step.act for step in fleet.steps]
    assert all(one.serving == OLD and one.loaded == {OLD} for one in fleet.servers.values())


def test_server_that_has_not_said_whether_it_committed_is_led_back() -> None:
    """Also where it shows what it had: it may carry out later what it was asked for, and that comes first then."""
    run = FleetRun("back", NEW, {"s0": OLD, "s1": OLD})
    asked = ServerView(serving=OLD, has_new=True, is_unsure=True)
    step = next_step(run, {"s0": asked, "s1": ServerView(serving=OLD, has_new=True)}, FAIL)
    assert (step.act, step.servers) == ("restore", ("s0",))


def test_joiner_during_the_commit_gets_the_version_before_the_end() -> None:
    """A server that joins when others have the version is prepared and verified before it gets it, then it counts."""

    def join(fleet: SimulatedFleet, _: int) -> None:
        if fleet.phase == "commit":
            fleet.servers.setdefault("s9", SimulatedServer(serving=None, loaded=set()))

    fleet = SimulatedFleet(2, FAIL, join)
    assert fleet.run().outcome == "committed"
    assert fleet.servers["s9"].serving == NEW
    late = [step for step in fleet.steps if step.servers == ("s9",)]
    assert [step.act for step in late] == ["prepare", "verify", "commit"]


def test_unreachable_server_is_fenced_where_the_policy_says_so() -> None:
    """After the limit it is taken out, and the others go on."""
    fleet = SimulatedFleet(3, FENCE, undisturbed)
    fleet.servers["s2"].away_since = 0.0
    assert fleet.run().outcome == "committed"
    assert list(fleet.fenced) == ["s2"]
    assert [step.act for step in fleet.steps].index("fence") < [step.act for step in fleet.steps].index(
        "commit"
    )


def test_fencing_never_leaves_too_few() -> None:
    """Where fewer than the least would be left, all are led back."""
    fleet = SimulatedFleet(2, FENCE, undisturbed)
    fleet.servers["s1"].away_since = 0.0
    last = fleet.run()
    assert last.outcome == "taken_back"
    assert not fleet.fenced
    assert any("fewer than 2" in reason for step in fleet.steps for reason in step.reasons)


def test_server_that_could_not_be_fenced_is_not_fenced_again() -> None:
    """Before the end of the commit it leads all back; after it the release ends without it, and names it."""
    views = {name: ServerView(serving=NEW, is_prepared=True, is_verified=True) for name in ("a", "b")}
    views["c"] = ServerView(away_s=9.0, refusal="it could not be fenced: HTTP 403")
    phases: tuple[Phase, ...] = ("prepare", "commit")
    for phase in phases:
        step = next_step(FleetRun(phase, NEW, {}), views, FENCE)
        assert (step.act, step.phase, step.reasons) == ("enter", "back", (f"c: {views['c'].refusal}",))
    step = next_step(FleetRun("drain", NEW, {}), views, FENCE)
    assert (step.act, step.outcome) == ("finish", "committed")
    assert step.reasons == (f"c: {views['c'].refusal}", "c: no answer for 9 s")


def test_fleet_without_a_server_is_led_back() -> None:
    """Nothing is committed to nobody."""
    step = next_step(FleetRun("prepare", NEW, {}), {}, FAIL)
    assert (step.phase, step.reasons) == ("back", ("the fleet has no server",))


def test_list_without_a_server_is_no_way_back() -> None:
    """Where servers had something before and none is listed now, nobody knows what they serve: that is no success."""
    step = next_step(FleetRun("back", NEW, {"s0": OLD}), {}, FAIL)
    assert (step.act, step.outcome) == ("finish", "failed")
    assert step.reasons == ("no server is listed: none was asked what it serves",)
    begun = next_step(FleetRun("back", NEW, {}), {}, FAIL)
    assert (begun.act, begun.outcome) == ("finish", "taken_back"), (
        "no server was ever seen, so none was changed"
    )
    drained = next_step(FleetRun("drain", NEW, {"s0": OLD}), {}, FAIL)
    assert (drained.outcome, drained.reasons) == ("committed", step.reasons)


def test_server_that_cannot_be_led_back_is_named() -> None:
    """The outcome is `failed` where one that answers keeps something else than it had."""
    views = {"a": ServerView(serving=OLD), "b": ServerView(serving=NEW, refusal="it refuses")}
    step = next_step(FleetRun("back", NEW, {"a": OLD, "b": OLD}), views, FAIL)
    assert (step.act, step.outcome, step.reasons) == ("finish", "failed", ("b: it refuses",))


@pytest.mark.parametrize("policy", [FAIL, FENCE], ids=["fail", "fence"])
@given(data=st.data())
def test_failures_at_any_step_leave_all_on_one_version(policy: FleetPolicy, data: st.DataObject) -> None:
    """Servers that hang, return, refuse, restart empty or join, and a controller that is killed: in the end all servers
    that answer serve the same, and what was committed was verified on all before the first user met it."""
    events = data.draw(st.dictionaries(st.integers(0, 40), st.sampled_from(_EVENTS), max_size=6))
    chosen = data.draw(st.lists(st.integers(0, 3), min_size=41, max_size=41))

    def disturb(fleet: SimulatedFleet, number: int) -> None:
        kind = events.get(number)
        if kind is not None:
            _happen(fleet, kind, f"s{chosen[number]}")

    fleet = SimulatedFleet(4, policy, disturb)
    last = fleet.run()
    answering = {name: one for name, one in fleet.servers.items() if one.away_since is None}
    if last.outcome == "committed":
        assert all(one.serving == NEW for one in answering.values() if not one.refusal)
    else:
        assert {one.serving for name, one in answering.items() if fleet.before[name] is not None} <= {OLD}
    acts = [step.act for step in fleet.steps]
    if "commit" in acts:
        assert "verify" in acts[: acts.index("commit")]
    assert len(fleet.servers) >= (policy.least_servers if fleet.fenced else 0)
    assert policy is FENCE or not fleet.fenced


_EVENTS = ("hang", "return", "wrong", "restart", "join", "kill", "die")


def _happen(fleet: SimulatedFleet, kind: str, name: str) -> None:
    one = fleet.servers.get(name)
    if kind == "kill":
        fleet.kill_controller()
    elif kind == "join":
        fleet.servers.setdefault("s8", SimulatedServer(serving=None, loaded=set()))
    elif one is None:
        return
    elif kind in ("hang", "die") and one.away_since is None:
        one.away_since = fleet.now
    elif kind == "return":
        one.away_since = None
    elif kind == "wrong":
        one.is_wrong = True
    elif kind == "restart":
        one.serving, one.loaded, one.verified = None, set(), False
