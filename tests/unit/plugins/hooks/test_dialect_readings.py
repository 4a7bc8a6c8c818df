"""What a dialect reads besides the InferenceService, as the hook asks the API for it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.hooks.inference_service import KServeHook
from slipway_core.rollout.dialects.registry import dialect_named
from slipway_core.rollout.reading import Reading, Resource
from slipway_kubernetes import ObjectKind

REVISIONS = Resource("serving.knative.dev", "v1", "revisions", "Revision")


class ObjectsDouble:
    """Has every object that is asked for by its name, but those called missing; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read(self, kind: ObjectKind, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the object of a name."""
        self.asked.append(f"get {kind.plural} {name}")
        return None if name == "missing" else {"metadata": {"name": name}}

    def list(self, kind: ObjectKind, namespace: str, *, label_selector: str) -> SimpleNamespace:
        """Return one object."""
        self.asked.append(f"list {kind.plural} {label_selector}")
        return SimpleNamespace(items=[{"metadata": {"name": "one"}}])


@pytest.fixture
def objects() -> ObjectsDouble:
    """The cluster's objects."""
    return ObjectsDouble()


@pytest.fixture
def hook(objects: ObjectsDouble) -> KServeHook:
    """A hook on them."""
    found = KServeHook("digits", "models")
    found.__dict__["objects"] = objects
    return found


def test_no_name_is_no_request(hook: KServeHook, objects: ObjectsDouble) -> None:
    """Of an InferenceService without a revision none is read; to list them all takes a right that nobody has."""
    service, revisions = dialect_named("Knative").extra_readings({"metadata": {"name": "digits"}})
    assert hook.read(revisions) == []
    assert objects.asked == []
    assert len(hook.read(service)) == 1
    assert objects.asked == ["get services digits-predictor"]


def test_what_never_changes_is_read_once_of_the_same_service(
    hook: KServeHook, objects: ObjectsDouble
) -> None:
    """Another InferenceService of its name has other revisions; what is missing is asked for again."""
    reading = Reading(REVISIONS, ("a", "missing"), never_changes=True)
    for uid in ("u", "u", "v"):
        assert hook.read(reading, uid) == [{"metadata": {"name": "a"}}]
    assert objects.asked.count("get revisions a") == 2
    assert objects.asked.count("get revisions missing") == 3


def test_routes_are_got_by_name_and_deployments_listed(hook: KServeHook, objects: ObjectsDouble) -> None:
    """In Standard mode, in this order: Deployments may be hidden, routes may not."""
    routes, deployments = dialect_named("Standard").readings({"metadata": {"name": "digits"}})
    assert (routes.is_needed, deployments.is_needed) == (True, False)
    assert len(hook.read(routes)) == 3
    assert len(hook.read(deployments)) == 1
    assert objects.asked == [
        "get httproutes digits",
        "get httproutes digits-predictor",
        "get httproutes digits-predictor-candidate",
        "list deployments serving.kserve.io/inferenceservice=digits",
    ]
