"""Previews by our own hook, in both modes: the emulated KServe, real Tritons and a real Envoy."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from slipway.traffic.reconciler import observe_service
from slipway_core.errors import AlreadyReleasedError, ForeignChangeError, SpecError
from slipway_core.rollout.dialects.standard.observed import StandardObserved
from slipway_core.rollout.dialects.standard.resources import routes_of
from slipway_core.rollout.next_action import (
    FirstDeploy,
    Observed,
    Promote,
    RollBack,
    ShowCandidate,
    StartCanary,
    Withdraw,
)
from tests.support.serving.clients import ask_http
from tests.support.serving.published import BETTER, GOOD
from tests.support.serving.serving_stack import ServingStack, manifest

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

SHOW = ShowCandidate(BETTER, release_id="table-2", version=2)
MODES = pytest.mark.parametrize("mode", ["Knative", "Standard"])


def first(mode: str) -> FirstDeploy:
    """The first version, in a mode."""
    service = manifest(GOOD)
    service["metadata"]["annotations"] = {
        "serving.kserve.io/deploymentMode": mode,
        "serving.kserve.io/enable-tag-routing": "true",
    }
    return FirstDeploy(service)


async def asked(serving_stack: ServingStack, url: str) -> tuple[int, float]:
    """What the model answers at a URL: its status and its factor."""
    return await asyncio.to_thread(ask_http, serving_stack.envoy.ingress_port, 1.0, urlsplit(url).netloc)


async def shown(serving_stack: ServingStack) -> Observed:
    """Open the preview."""
    turn = await serving_stack.reach(SHOW)
    assert turn.observed is not None
    return turn.observed


@MODES
async def test_candidate_answers_testers_and_no_user(serving_stack: ServingStack, mode: str) -> None:
    """Its own address answers with the candidate, the users' host with stable only; rolled back, stable is alone."""
    await serving_stack.reach(first(mode))
    with serving_stack.load() as load:
        observed = await shown(serving_stack)
        assert await asked(serving_stack, observed.candidate_url) == (200, 3.0)
        before = load.answers["http 2"]
        await serving_stack.until(
            lambda: load.answers["http 2"] > before + 100, "users' answers during the preview"
        )
        turn = await serving_stack.reach(RollBack(GOOD, BETTER))
        await asyncio.to_thread(serving_stack.hook.conceal)
        before = load.answers["http 2"]
        await serving_stack.until(
            lambda: load.answers["http 2"] > before + 50, "users' answers after the rollback"
        )
    assert load.failures == []
    assert (load.answers["http 3"], load.answers["grpc 3"]) == (0, 0)
    assert turn.observed is not None
    assert turn.observed.canary_percent is None
    assert turn.observed.storage_uri == GOOD
    answered = await asked(serving_stack, observed.candidate_url)
    assert answered != (200, 3.0)


@MODES
async def test_previewed_candidate_gets_users_and_is_promoted(serving_stack: ServingStack, mode: str) -> None:
    """What testers tried is what users get, and no request fails on the way."""
    await serving_stack.reach(first(mode))
    with serving_stack.load() as load:
        observed = await shown(serving_stack)
        await serving_stack.reach(
            StartCanary(BETTER, 20, release_id="table-2", generation=observed.generation)
        )
        await serving_stack.until(lambda: load.answers["http 3"] > 20, "answers of the candidate")
        assert await asked(serving_stack, observed.candidate_url) == (200, 3.0)
        await serving_stack.reach(Promote(BETTER))
        load.answers.clear()
        await serving_stack.until(lambda: load.answers["http 3"] > 50, "answers after the promotion")
    assert load.failures == []


@MODES
async def test_late_raise_of_a_preview_is_refused(serving_stack: ServingStack, mode: str) -> None:
    """After the rollback the generation that the preview was seen at is no key any more, force or not."""
    await serving_stack.reach(first(mode))
    observed = await shown(serving_stack)
    await serving_stack.reach(RollBack(GOOD, BETTER))
    for force in (False, True):
        late = StartCanary(BETTER, 50, force=force, generation=observed.generation)
        with pytest.raises((ForeignChangeError, AlreadyReleasedError)):
            await serving_stack.reach(late)


async def test_candidates_route_goes_with_its_service(serving_stack: ServingStack) -> None:
    """The HTTPRoute is the InferenceService's own: deleting the one takes the other along."""
    await serving_stack.reach(first("Standard"))
    await shown(serving_stack)
    assert len(serving_stack.hook.read(routes_of(serving_stack.hook.name))) == 3
    await serving_stack.reach(RollBack(GOOD, BETTER))
    await serving_stack.reach(Withdraw(GOOD))
    await serving_stack.until(
        lambda: serving_stack.hook.read(routes_of(serving_stack.hook.name)) == [], "the routes to be gone"
    )


async def test_somebody_elses_route_is_not_replaced(serving_stack: ServingStack) -> None:
    """A route of the name that slipway would give its own, without slipway's label, stops the preview."""
    await serving_stack.reach(first("Standard"))
    await serving_stack.reach(StartCanary(BETTER, 20))
    entry = observe_service(serving_stack.hook)
    assert isinstance(entry, StandardObserved)
    assert entry.view.own is not None
    theirs = dict(entry.view.route_to(entry.view.own) or {})
    theirs["metadata"] = {**theirs["metadata"], "labels": {}, "ownerReferences": []}
    assert serving_stack.hook.expose(theirs)
    with pytest.raises(ForeignChangeError, match="does not belong to Slipway"):
        await asyncio.to_thread(serving_stack.hook.expose, theirs)
    await asyncio.to_thread(serving_stack.hook.conceal)
    assert len(serving_stack.hook.read(routes_of(serving_stack.hook.name))) == 3


@pytest.mark.parametrize("serving_stack", [{"enable_gateway_api": False}], indirect=True)
async def test_first_version_without_gateway_api_is_not_created(serving_stack: ServingStack) -> None:
    """In Standard mode KServe's own configuration is read before anything is made; the reason is told."""
    with pytest.raises(SpecError, match="enableGatewayApi"):
        await serving_stack.reach(first("Standard"))
    assert serving_stack.hook.get() is None
