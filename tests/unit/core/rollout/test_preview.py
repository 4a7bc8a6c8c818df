from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from slipway_core.rollout.dialects.standard.candidate_route import candidate_route, is_own, route_name
from slipway_core.rollout.dialects.standard.view import backend_name, predictor_name
from slipway_core.rollout.next_action import (
    Done,
    Expose,
    Goal,
    Impossible,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
    Wait,
    next_action,
)
from slipway_sandbox.lab.simulation.cluster_model import futures, worst_share
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live

V2, V3 = "s3://b/v2", "s3://b/v3"
SHOW = ShowCandidate(V3, release_id="digits-3", version=3)
Model = KnativeModel | StandardModel
TRANSFORMER = {"containers": [{"name": "pre", "image": "pre:1"}]}


def drive(model: Model, goal: Goal, rounds: int = 40) -> Any:
    """Perform what is next until there is nothing more to do; return the last action."""
    action: Any = None
    for _ in range(rounds):
        action = next_action(goal, model.read())
        if isinstance(action, Done | Impossible):
            return action
        if isinstance(action, Patch):
            model.patch(dict(action.body))
        if isinstance(action, Expose):
            assert isinstance(model, StandardModel)
            model.expose(dict(action.body))
        model.settle(rounds=2)
    return action


@pytest.fixture(params=[live_model, standard_live], ids=["Knative", "Standard"])
def model(request: pytest.FixtureRequest) -> Model:
    """An InferenceService on which v2 has all users, in either dialect."""
    made: Model = request.param()
    return made


def previewed(model: Model) -> int:
    """Open the preview; return the generation at which it was seen to be up."""
    assert isinstance(drive(model, SHOW), Done)
    return model.read().generation


def test_a_preview_is_up_at_its_own_address_and_no_user_is_led_there(model: Model) -> None:
    """At no time, whatever order the controllers act in, does it get a user."""
    action = next_action(SHOW, model.read())
    assert isinstance(action, Patch)
    model.patch(dict(action.body))
    assert all(one.users().get(V3, 0) == 0 for one in futures(model))
    previewed(model)
    observed = model.read()
    assert observed.is_preview
    assert observed.candidate_url.startswith("http://")
    assert observed.candidate_url != observed.stable_url
    assert model.users() == {V2: 100}


def test_the_preview_that_was_looked_at_gets_its_first_percent_and_is_promoted(model: Model) -> None:
    """With the generation of the preview the canary goes on from it, with the same pods."""
    generation = previewed(model)
    assert isinstance(drive(model, StartCanary(V3, 5, generation=generation)), Done)
    assert model.users() == {V2: 95, V3: 5}
    again = StartCanary(V3, 5, generation=generation)
    assert isinstance(next_action(again, model.read()), Done), "a task that is run again is no late one"
    assert isinstance(drive(model, Promote(V3)), Done)
    assert model.users() == {V3: 100}


@pytest.mark.parametrize(
    "goal",
    [StartCanary(V3, 5), StartCanary(V3, 5, generation=1), ShiftWeight(5, V3), ShiftWeight(5), Promote(V3)],
)
def test_nobody_else_gives_a_preview_users(model: Model, goal: Goal) -> None:
    """Without the generation of the preview percent 0 stays, as it does in a rollback."""
    previewed(model)
    action = next_action(goal, model.read())
    assert isinstance(action, Impossible)
    assert action.kind == "rolled_back"


def test_a_rollback_of_a_preview_begins_with_the_good_version(model: Model) -> None:
    """Percent 0 is there already: the first patch ends the preview, and a late raise is refused from then on."""
    generation = previewed(model)
    action = next_action(RollBack(V2, V3), model.read())
    assert isinstance(action, Patch)
    assert action.phase == "restore"
    model.patch(dict(action.body))
    for force in (True, False):
        late = StartCanary(V3, 99, force=force, generation=generation)
        assert isinstance(next_action(late, model.read()), Impossible)
    assert isinstance(drive(model, RollBack(V2, V3)), Done)
    assert model.users() == {V2: 100}
    assert isinstance(
        next_action(replace(SHOW, force=True, generation=generation - 1), model.read()), Impossible
    )


def test_a_duplicate_does_not_take_a_shielded_canary_for_a_preview(model: Model) -> None:
    """Percent 0 after users were there is a rollback: the preview's task, run again, passes no generation on."""
    drive(model, StartCanary(V3, 5, generation=previewed(model)))
    shield = next_action(RollBack(V2, V3), model.read())
    assert isinstance(shield, Patch)
    model.patch(dict(shield.body))
    model.settle()
    observed = model.read()
    assert observed.canary_percent == 0
    assert not observed.is_preview
    assert isinstance(next_action(SHOW, observed), Impossible)
    late = StartCanary(V3, 99, generation=observed.generation)
    assert isinstance(next_action(late, observed), Impossible)


def test_a_percent_that_somebody_else_sets_to_0_is_no_preview(model: Model) -> None:
    """A person who takes the canary to 0 by hand is not overruled by the task that begins it."""
    generation = previewed(model)
    drive(model, StartCanary(V3, 50, generation=generation))
    body: dict[str, Any] = {"predictor": {"canaryTrafficPercent": 0}}
    if isinstance(model, StandardModel):
        entry = copy.deepcopy(model.spec["canary"][0])
        body = {"canary": [{**entry, "trafficPercent": 0}]}
    model.patch({"metadata": {}, "spec": body})
    model.settle()
    for known in (generation, model.read().generation):
        assert isinstance(next_action(StartCanary(V3, 5, generation=known), model.read()), Impossible)


def test_a_preview_of_what_is_live_or_was_rolled_back_is_refused() -> None:
    """The same storageUri makes no revision; a version that was taken back needs force."""
    model = live_model()
    assert isinstance(next_action(ShowCandidate(V2), model.read()), Impossible)
    drive(model, StartCanary(V3, 5))
    drive(model, RollBack(V2, V3))
    refused = next_action(SHOW, model.read())
    assert isinstance(refused, Impossible)
    assert refused.kind == "rolled_back"
    assert isinstance(next_action(replace(SHOW, force=True), model.read()), Patch)


def test_a_preview_that_was_taken_away_may_be_shown_again() -> None:
    """No user has met it: whether it may come back is for the gate that refused it, not for a note on the object."""
    model = live_model()
    previewed(model)
    drive(model, RollBack(V2, V3))
    assert isinstance(next_action(SHOW, model.read()), Patch)


def test_a_candidate_that_does_not_load_is_told_in_the_preview() -> None:
    """Nobody has to wait for the first percent to learn it."""
    model = live_model(unloadable=frozenset({V3}))
    action = drive(model, SHOW)
    assert isinstance(action, Impossible)
    assert action.kind == "load_failed"
    assert worst_share(model, V3) == 0


# --- the route of the other dialect ---


def test_testers_come_to_the_candidate_by_a_host_of_its_own() -> None:
    """The route names the predictor's Gateway, a host made of the predictor's, and the candidate's Service alone."""
    model = standard_live()
    previewed(model)
    backend = backend_name("digits", predictor_name(V3))
    route = model.own_routes[route_name("digits")]
    assert is_own(route, "digits")
    assert route["spec"]["hostnames"] == ["digits-predictor-candidate.models.example.org"]
    (rule,) = route["spec"]["rules"]
    assert [one["name"] for one in rule["backendRefs"]] == [backend]
    assert route["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert model.read().candidate_url == "http://digits-predictor-candidate.models.example.org"


def test_a_route_that_no_gateway_has_taken_is_waited_for() -> None:
    """An address that does not work yet is none."""
    model = standard_live()
    previewed(model)
    del model.own_routes[route_name("digits")]["status"]
    assert isinstance(next_action(SHOW, model.read()), Wait)


def test_a_route_that_leads_to_an_older_candidate_is_replaced() -> None:
    """What an earlier release has left does not lead testers astray."""
    model = standard_live()
    previewed(model)
    model.own_routes[route_name("digits")]["spec"]["rules"][0]["backendRefs"][0]["name"] = (
        "digits-v1-predictor"
    )
    assert model.read().candidate_url == ""
    assert isinstance(next_action(SHOW, model.read()), Expose)


@pytest.mark.parametrize("hosts", [[], ["somewhere.else"], [f"digits-predictor-{'n' * 45}.example.org"]])
def test_no_host_no_route(hosts: list[str]) -> None:
    """Where the predictor's own route has no host that fits, none is invented."""
    routes = standard_live().routes()
    routes[0]["spec"]["hostnames"] = hosts
    assert candidate_route("digits", "u", "backend", routes) is None


# --- the transformer ---


def with_transformer() -> KnativeModel:
    """Return a live InferenceService with a transformer, in the Knative dialect."""
    model = live_model()
    model.transformer = copy.deepcopy(TRANSFORMER)
    return model


def test_model_and_transformer_go_live_as_one() -> None:
    """The predictor's split decides alone; nothing of ours touches the transformer, forward or back."""
    model = with_transformer()
    drive(model, StartCanary(V3, 5, generation=previewed(model)))
    drive(model, ShiftWeight(50))
    assert model.users() == {V2: 50, V3: 50}
    drive(model, RollBack(V2, V3))
    assert model.users() == {V2: 100}
    assert model.transformer == TRANSFORMER


@pytest.mark.parametrize(
    "change", [{"containers": [{"name": "pre", "image": "pre:2"}]}, {"containers": None}]
)
def test_a_transformer_that_somebody_changes_ends_the_canary(change: dict[str, Any]) -> None:
    """Evidence of the one pair is none of another; the rollback goes on and leaves the change as it is."""
    model = with_transformer()
    drive(model, StartCanary(V3, 5))
    model.patch({"metadata": {}, "spec": {"transformer": change}})
    changed = copy.deepcopy(model.transformer)
    for goal in (ShiftWeight(5, V3), ShiftWeight(50, V3), Promote(V3)):
        action = next_action(goal, model.read())
        assert isinstance(action, Impossible)
        assert action.kind == "foreign_change"
    assert isinstance(drive(model, RollBack(V2, V3)), Done)
    assert model.transformer == changed


def test_a_transformer_that_comes_during_a_preview_ends_it() -> None:
    """The generation is another one, so what was tried is not what would get users."""
    model = live_model()
    generation = previewed(model)
    model.patch({"metadata": {}, "spec": {"transformer": TRANSFORMER}})
    assert isinstance(next_action(StartCanary(V3, 5, generation=generation), model.read()), Impossible)


def test_a_canary_without_a_note_of_its_transformer_goes_on() -> None:
    """One that an older slipway began is not taken for changed."""
    model = with_transformer()
    drive(model, StartCanary(V3, 5))
    del model.annotations["slipway.dev/transformer"]
    assert isinstance(next_action(ShiftWeight(50, V3), model.read()), Patch)
