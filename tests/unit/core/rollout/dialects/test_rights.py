"""The rights that each dialect asks for are those that the page grants Airflow, and the manifest the guard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway_core.rollout.dialects.protocol import Dialect
from slipway_core.rollout.dialects.registry import DIALECTS

ROOT = Path(__file__).resolve().parents[5]
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_VERBS = ("get", "list", "watch", "create", "patch", "delete")
# What the guard needs whatever the dialect.
_GUARDS_OWN = {"inferenceservices.serving.kserve.io", "leases.coordination.k8s.io", "events."}


def rows() -> list[tuple[str, str, str]]:
    """Return the rows of the page's table: namespace, resources, verbs."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    return _ROW.findall(page.partition("Rights in the cluster\n")[2].partition("\n### ")[0])


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=[*DIALECTS])
def test_the_page_grants_what_a_dialect_asks_for_and_no_more(dialect: Dialect[Any]) -> None:
    """The rows that name its mode."""
    granted = {
        re.findall(r"`([^`]+)`", resources)[0]: {
            word for word in re.findall("[a-z]+", verbs) if word in _VERBS
        }
        for namespace, resources, verbs in rows()
        if "rollout.namespace" in namespace and f"({dialect.name} mode)" in resources
    }
    assert granted == {resource.name: set(verbs) for resource, verbs in dialect.rights.items()}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=[*DIALECTS])
def test_the_page_names_the_config_map_that_a_dialect_asks(dialect: Dialect[Any]) -> None:
    """With the one verb that it takes."""
    namespace, name = dialect.config_map
    (verbs,) = [
        verbs
        for where, resources, verbs in rows()
        if where.strip() == f"`{namespace}`"
        and f"`{name}`" in resources
        and f"{dialect.name} mode" in resources
    ]
    assert verbs.strip() == "get"


def test_the_manifest_grants_the_guard_what_the_dialects_ask_for_and_no_more() -> None:
    """Beyond what it needs in any of them."""
    manifest = (ROOT / "include" / "manifests" / "guard" / "rbac.yaml").read_text(encoding="utf-8")
    (role,) = [one for one in yaml.safe_load_all(manifest) if one["kind"] == "Role"]
    granted = {
        f"{resource}.{group}": set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    asked = {
        resource.name: set(verbs)
        for dialect in DIALECTS.values()
        for resource, verbs in dialect.guard_rights.items()
    }
    assert {name: verbs for name, verbs in granted.items() if name not in _GUARDS_OWN} == asked
    assert granted.keys() >= _GUARDS_OWN


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=[*DIALECTS])
def test_what_a_dialect_reads_it_asks_the_right_for(dialect: Dialect[Any]) -> None:
    """Objects by name are got, others are listed; so is what the guard watches."""
    isvc = {"metadata": {"name": "digits"}}
    for reading in (*dialect.beside(isvc), *dialect.behind(isvc)):
        assert ("get" if reading.names or not reading.label_selector else "list") in dialect.rights[
            reading.resource
        ]
    for resource in dialect.watched:
        assert "list" in dialect.guard_rights[resource]
    for reading in dialect.behind(isvc):
        assert "get" in dialect.guard_rights[reading.resource]
