"""The rights that doctor asks for are those that docs/cluster.md grants."""

from __future__ import annotations

import pytest

from slipway_core.doctor.rights import needed_rights
from slipway_core.spec.release_file import ReleaseSpec, release_spec_of
from tests.support.conformance.rights import documented_rules


def spec(mode: str, **rollout: object) -> ReleaseSpec:
    """Return a small release file."""
    return release_spec_of(
        {
            "model": "digits",
            "source": {"format": "onnx"},
            "rollout": {"deployment_mode": mode, "namespace": "models", **rollout},
        },
        "a test",
    )


def documented(where: str, of: str = "") -> set[tuple[str, str]]:
    """Return the page's rights as pairs of resource and verb, less those of one named object."""
    return {
        (f"{resource}.{group}" if group else resource, verb)
        for rule in documented_rules(where, of)
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("mode", ["Knative", "Standard"])
def test_what_is_asked_is_what_the_page_grants(mode: str) -> None:
    """In the namespace of the pods, and in that of the InferenceServices in its mode."""
    found = list(needed_rights([spec(mode, preview={})], "pods"))
    pods = {(one.resource, verb) for one in found if one.namespace == "pods" for verb in one.verbs}
    services = {(one.resource, verb) for one in found if one.namespace == "models" for verb in one.verbs}
    assert pods == documented("that of the pods")
    other = documented("rollout.namespace", "(Standard mode)" if mode == "Knative" else "(Knative mode)")
    assert services == documented("rollout.namespace") - other


def test_routes_are_made_only_for_a_preview() -> None:
    """Who shows no candidate needs no right to create one."""
    (routes,) = [one for one in needed_rights([spec("Standard")], "pods") if one.plural == "httproutes"]
    assert sorted(routes.verbs) == ["get", "patch"]


def test_a_resource_has_its_parts() -> None:
    """As a review of access asks for them."""
    log = next(one for one in needed_rights([], "pods") if one.subresource)
    assert (log.group, log.plural, log.subresource) == ("", "pods", "log")
