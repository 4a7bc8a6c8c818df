"""The rights that each dialect asks for are those that the page grants Airflow, and the manifest the guard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway_core.rollout.dialects.protocol import Dialect, Rights
from slipway_core.rollout.dialects.registry import DIALECTS
from tests.support.conformance.rights import documented_rules

RBAC = Path(__file__).resolve().parents[5] / "include" / "manifests" / "guard" / "rbac.yaml"
# What the guard needs whatever the dialect.
_GUARDS_OWN = {"inferenceservices.serving.kserve.io", "leases.coordination.k8s.io", "events."}


def granted(rules: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the verbs of a Role's rules by resource."""
    return {
        f"{resource}.{group}": set(rule["verbs"])
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def asked(rights: Rights) -> dict[str, set[str]]:
    """Return the verbs that are asked for by resource."""
    return {resource.name: set(verbs) for resource, verbs in rights.items()}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=[*DIALECTS])
def test_the_page_grants_what_a_dialect_asks_for_and_no_more(dialect: Dialect[Any]) -> None:
    """The rows that name its mode."""
    rules = documented_rules("rollout.namespace", of=f"({dialect.name} mode)")
    assert granted(rules) == asked(dialect.rights)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=[*DIALECTS])
def test_the_page_names_the_config_map_that_a_dialect_asks(dialect: Dialect[Any]) -> None:
    """With the one verb that it takes."""
    namespace, name = dialect.config_map
    (rule,) = documented_rules(f"`{namespace}`", of=f"{dialect.name} mode")
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (["configmaps"], [name], ["get"])


def test_the_manifest_grants_the_guard_what_the_dialects_ask_for_and_no_more() -> None:
    """Beyond what it needs in any of them."""
    (role,) = [one for one in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) if one["kind"] == "Role"]
    found = granted(role["rules"])
    assert found.keys() >= _GUARDS_OWN
    wanted: dict[str, set[str]] = {}
    for dialect in DIALECTS.values():
        wanted |= asked(dialect.guard_rights)
    assert {name: verbs for name, verbs in found.items() if name not in _GUARDS_OWN} == wanted


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=[*DIALECTS])
def test_what_a_dialect_reads_it_asks_the_right_for(dialect: Dialect[Any]) -> None:
    """Objects by name are got, others are listed; so is what the guard watches."""
    isvc = {"metadata": {"name": "digits"}}
    for reading in (*dialect.readings(isvc), *dialect.extra_readings(isvc)):
        verb = "list" if reading.names is None else "get"
        assert verb in dialect.rights[reading.resource]
    for resource in dialect.watched:
        assert "list" in dialect.guard_rights[resource]
    for reading in dialect.extra_readings(isvc):
        assert reading.names is not None
        assert "get" in dialect.guard_rights[reading.resource]
