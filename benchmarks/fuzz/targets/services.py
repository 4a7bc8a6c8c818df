"""InferenceServices in both dialects with their HTTPRoutes, held against every goal; and leases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any

from benchmarks.fuzz import mutate
from benchmarks.fuzz.target import BrokenPromiseError, Target
from slipway_core.rollout.dialects.registry import preflight
from slipway_core.rollout.dialects.standard.preflight import cluster_config
from slipway_core.rollout.lease import LeaseWatch, ending, lease_manifest, parse_lease, renewal
from slipway_core.rollout.next_action import (
    Done,
    FirstDeploy,
    Goal,
    Impossible,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
    Wait,
    Withdraw,
    next_action,
    observe,
)
from slipway_core.rollout.reading import Evidence
from slipway_sandbox.lab.simulation.evidence import knative_evidence, standard_evidence
from slipway_sandbox.lab.simulation.knative_model import live_model
from slipway_sandbox.lab.simulation.standard_model import standard_live

_STABLE, _CANDIDATE = "s3://b/v2", "s3://b/v3"
_FORWARD: tuple[Goal, ...] = (
    ShowCandidate(_CANDIDATE, "r", 3),
    StartCanary(_CANDIDATE, 5, "r", 3),
    ShiftWeight(50, _CANDIDATE),
    Promote(_CANDIDATE),
    Promote(),
)
_BACK = (RollBack(_STABLE, _CANDIDATE), RollBack(_STABLE), RollBack(_STABLE, _CANDIDATE, unnoted_may_go=True))
_OTHERS: tuple[Goal, ...] = (
    Withdraw(_CANDIDATE),
    Withdraw(),
    FirstDeploy({"spec": {"predictor": {"model": {"storageUri": _STABLE}}}}),
)


def _states(make: Any) -> Iterator[Any]:
    """The object after each step of a canary, of its promotion and of its end."""
    for goals in (
        [StartCanary(_CANDIDATE, 5, "r", 3), Promote(_CANDIDATE)],
        [_FORWARD[1], _BACK[0]],
        [_FORWARD[0]],
    ):
        model = make()
        yield _object(model)
        for goal in goals:
            for _ in range(12):
                action = next_action(goal, model.read())
                if hasattr(action, "body"):
                    model.patch(action.body) if action.__class__.__name__ == "Patch" else model.expose(
                        action.body
                    )
                    yield _object(model)
                elif isinstance(action, Done | Impossible):
                    break
                model.settle()
                yield _object(model)


def _object(model: Any) -> Any:
    seen = {
        name: getattr(model, name)() if hasattr(model, name) else [] for name in ("routes", "deployments")
    }
    behind = (
        {"behind": model.knative_service(), "revisions": model.revision_objects()}
        if _is_knative(model)
        else {}
    )
    return json.loads(json.dumps({"isvc": model.as_object(), **seen, **behind}))


def _is_knative(model: Any) -> bool:
    return hasattr(model, "knative_service")


@cache
def _knative() -> tuple[Any, ...]:
    return tuple(_states(live_model))


@cache
def _standard() -> tuple[Any, ...]:
    return tuple(_states(standard_live))


def _mutated(rng: Random, seeds: Any) -> Any:
    return mutate.tree(rng, seeds)


def _read(value: Any) -> None:
    """Nothing raises, and what cannot be read never counts as safe."""
    isvc = value.get("isvc") if isinstance(value, dict) else value
    routes = value.get("routes") if isinstance(value, dict) else ()
    isvc, routes = isvc if isinstance(isvc, dict) else {}, routes if isinstance(routes, list) else []
    deployments = value.get("deployments") if isinstance(value, dict) else None
    behind, revisions = (
        value.get(key) if isinstance(value, dict) else None for key in ("behind", "revisions")
    )
    standard = standard_evidence(routes, deployments if isinstance(deployments, list) else None)
    knative = knative_evidence(
        behind if isinstance(behind, dict) else None, revisions if isinstance(revisions, list) else []
    )
    evidence = Evidence({**standard.objects, **knative.objects})
    observed = observe(isvc, evidence)
    preflight(isvc, evidence)
    json.dumps(next_action(_BACK[0], observed).__dict__, default=str)
    for goal in (*_FORWARD, *_OTHERS, *_BACK):
        action = next_action(goal, observed)
        if hasattr(action, "body"):
            json.dumps(action.body)
        says_safe = isinstance(action, Done) or (isinstance(action, Wait) and action.users_safe)
        if goal in _BACK and says_safe and not _is_readable(isvc, routes):
            raise BrokenPromiseError(f"{goal} counts users as safe: {action}")
    if (
        observed.storage_uri in ("", _CANDIDATE)
        and observed.is_shielded_from(_CANDIDATE)
        and not _is_readable(isvc, routes)
    ):
        raise BrokenPromiseError("is_shielded_from counts users as safe")


def _is_readable(isvc: Any, routes: Any) -> bool:
    """Whether each share of the traffic is a whole percent or weight of something that has a name."""
    mode = (isvc.get("status") or {}).get("deploymentMode") if isinstance(isvc.get("status"), dict) else None
    mode = mode if isinstance(mode, str) else None
    notes = isvc["metadata"].get("annotations") if isinstance(isvc.get("metadata"), dict) else None
    mode = mode or (notes.get("serving.kserve.io/deploymentMode") if isinstance(notes, dict) else None)
    if mode in ("Standard", "RawDeployment"):
        return all(_is_route_readable(route) for route in routes if _is_own(isvc, route))
    try:
        traffic = isvc["status"]["components"]["predictor"]["traffic"]
    except (KeyError, TypeError):
        return False
    return isinstance(traffic, list) and all(
        isinstance(one, dict)
        and (one.get("percent") is None or isinstance(one["percent"], int))
        and (one.get("percent") or 0) in range(101)
        and (
            isinstance(one.get("revisionName"), str)
            or one.get("latestRevision") is True
            or not one.get("percent")
        )
        for one in traffic
    )


def _is_own(isvc: Any, route: Any) -> bool:
    try:
        name = isvc["metadata"]["name"]
        return route["metadata"]["name"] in (name, f"{name}-predictor")
    except (KeyError, TypeError):
        return False


def _is_route_readable(route: Any) -> bool:
    try:
        rules = route["spec"]["rules"]
        references = [one for rule in rules for one in rule.get("backendRefs") or ()]
        return isinstance(rules, list) and all(
            isinstance(one["name"], str)
            and isinstance(one.get("weight", 1), int)
            and one.get("weight", 1) >= 0
            for one in references
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _leases() -> list[Any]:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    made = lease_manifest(
        "digits", "models", holder="r", now=now, candidate_uri=_CANDIDATE, stable_uri=_STABLE
    )
    made["metadata"] |= {
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{"time": "2026-01-02T03:04:05Z"}, {"time": "2026-01-02T03:05:05Z"}],
    }
    ended = json.loads(json.dumps(made))
    ended["metadata"]["annotations"] |= ending(parse_lease(made), by="guard", reason="gone", now=now)[
        "metadata"
    ]["annotations"]
    return [made, ended]


def _read_lease(value: Any) -> None:
    lease = parse_lease(value if isinstance(value, dict) else {})
    now = datetime(2026, 1, 3, tzinfo=UTC)
    watch = LeaseWatch.begin(lease, 0.0)
    watch.why_expired(lease, server_time=now)
    watch.look(lease, 30.0).look(replace(lease, holder="x"), 60.0).why_expired(lease)
    ending(lease, by="guard", reason="", now=now)
    if not lease.is_ended:
        renewal(lease, now)


def _ingress(rng: Random, seeds: Any) -> Any:
    return mutate.some_bytes(rng, seeds)


TARGETS = (
    Target("isvc_knative", lambda: list(_knative()), _mutated, _read),
    Target("isvc_standard", lambda: list(_standard()), _mutated, _read),
    Target("lease", _leases, mutate.tree, _read_lease),
    Target(
        "cluster_config",
        lambda: [b'{"enableGatewayApi": true, "disableIngressCreation": false}'],
        _ingress,
        lambda content: cluster_config({"ingress": content.decode("utf-8", "replace")}),
    ),
)
