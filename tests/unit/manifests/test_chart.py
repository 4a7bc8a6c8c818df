"""include/charts/slipway, read without Helm: every value is described, and names what the code knows."""

from __future__ import annotations

import tomllib
from typing import Any

import jsonschema
import pytest
import yaml

from slipway_core.rollout.dialects.registry import DIALECTS
from slipway_core.spec.pods.settings import PodSettings
from slipway_core.spec.rollout.rollout import Rollout
from tests.support.chart.files import (
    CHART,
    ROOT,
    VALUES_FILES,
    comments,
    default_values,
    properties,
    schema,
)

SCHEMA, VALUES = schema(), default_values()
PROPERTIES = dict(properties(SCHEMA))
# What a parent chart shares is no value of this one.
OWN = {path: found for path, found in PROPERTIES.items() if path != "global"}


def merged(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Return values with those of a file over them, as Helm merges them."""
    return values | {
        name: merged(values[name], other)
        if isinstance(other, dict) and isinstance(values.get(name), dict)
        else other
        for name, other in others.items()
    }


def objects_of_schema(part: Any) -> list[dict[str, Any]]:
    """Return every part of a schema that names properties."""
    if isinstance(part, list):
        return [found for one in part for found in objects_of_schema(one)]
    if not isinstance(part, dict):
        return []
    below = [found for one in part.values() for found in objects_of_schema(one)]
    return [part, *below] if "properties" in part and "type" in part else below


def test_every_value_has_its_line_and_its_description() -> None:
    """The comment in values.yaml is the schema's description: one text for both, and none is missing."""
    said = comments()
    # What Kubernetes describes itself, and what a list's items have, is in the schema alone.
    keys = [path for path in OWN if "[]" not in path and ".resources." not in path]
    descriptions = {path: OWN[path].get("description") for path in keys}
    assert descriptions == {path: said.get(path) for path in descriptions}
    assert all(PROPERTIES[path].get("description") for path in PROPERTIES)


def test_the_schema_knows_every_value_and_no_other() -> None:
    """Each key of values.yaml has its place in the schema, and each of these a default."""

    def keys(values: dict[str, Any], path: tuple[str, ...] = ()) -> set[str]:
        found = set()
        for name, value in values.items():
            dotted = ".".join((*path, name))
            found.add(dotted)
            if isinstance(value, dict) and "properties" in PROPERTIES[dotted]:
                found |= keys(value, (*path, name))
        return found

    assert keys(VALUES) == {path for path in OWN if "[]" not in path}


def test_no_pattern_looks_around() -> None:
    """Helm's regular expressions know no lookahead: it would refuse the whole schema."""
    assert "(?" not in (CHART / "values.schema.json").read_text(encoding="utf-8")


def test_no_key_is_unknown() -> None:
    """Wherever the schema names properties, it refuses all others: a misspelt key is an error."""
    assert [one for one in objects_of_schema(SCHEMA) if one.get("additionalProperties") is not False] == []


@pytest.mark.parametrize("path", [None, *VALUES_FILES], ids=lambda path: path.stem if path else "defaults")
def test_values_that_are_shipped_are_valid(path: Any) -> None:
    """The defaults, and each file of values that is tested, pass the schema."""
    others = yaml.safe_load(path.read_text(encoding="utf-8")) if path else {}
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(merged(VALUES, others), SCHEMA, jsonschema.Draft7Validator)


def test_what_has_no_right_default_has_none() -> None:
    """No registry, no Triton and no bucket is guessed."""
    assert (VALUES["images"]["registry"], VALUES["images"]["triton"], VALUES["bucket"]) == ("", "", "")


def test_the_accounts_and_the_namespace_are_those_that_release_files_name_by_default() -> None:
    """A release file that says nothing finds what the chart creates."""
    rollout = Rollout()
    assert VALUES["serviceAccounts"]["pods"]["name"] == PodSettings.model_fields["service_account"].default
    assert VALUES["serviceAccounts"]["serving"]["name"] == rollout.service_account
    assert [one["servingNamespace"] for one in VALUES["teams"]] == [rollout.namespace]


def test_the_modes_are_the_dialects() -> None:
    """Each mode of KServe that the chart gives rights for is one that a rollout can speak."""
    assert set(VALUES["kserve"]["modes"]) <= set(DIALECTS)
    assert PROPERTIES["kserve.modes"]["items"]["enum"] == VALUES["kserve"]["modes"]


def test_the_images_are_those_that_are_built() -> None:
    """Each image of Slipway's that the chart names has its Dockerfile, and the chart's application its version."""
    for name in VALUES["images"]["digests"]:
        assert (ROOT / "include" / "images" / name / "Dockerfile").is_file()
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["appVersion"] == project["version"]
