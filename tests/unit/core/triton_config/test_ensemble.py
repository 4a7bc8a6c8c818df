"""Several models as one: what calls what, pinned, renamed and hashed together."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.bucket_layout import staged_model, staged_name
from slipway_core.errors import ModelInvalidError
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.ensemble import (
    Configs,
    bundle_config_sha256,
    called_models,
    departures,
    is_ensemble,
    load_order,
    members_file,
    pin_bundle,
    rename_bundle,
)

NAMES = ("a", "b", "c", "d", "e")


def ensemble(*members: str) -> dict[str, Any]:
    """Return an ensemble's configuration, without its tensors."""
    steps = [{"model_name": name, "model_version": -1} for name in members]
    return {"platform": "ensemble", "ensemble_scheduling": {"step": steps}}


def program(*called: str) -> dict[str, Any]:
    """Return the configuration of a program that is told which models to call."""
    parameters = {f"{name}_model_name": {"string_value": name} for name in called}
    return {"backend": "python", "parameters": {**parameters, "factor": {"string_value": "a"}}}


@st.composite
def bundles(draw: st.DrawFn) -> Configs:
    """Up to five models; each may call those before it, by steps or by name."""
    configs: Configs = {}
    for name in NAMES[: draw(st.integers(1, 5))]:
        called = draw(st.lists(st.sampled_from(sorted(configs)), unique=True)) if configs else []
        config = draw(st.sampled_from([ensemble, program]))(*called) if called else program()
        configs[name] = {"name": name, **config}
    return configs


new_names = st.lists(st.text("xyz_", min_size=1), min_size=5, max_size=5, unique=True).map(
    lambda words: dict(zip(NAMES, words, strict=True))
)


@given(bundles())
def test_load_order_has_each_model_after_those_it_calls(configs: Configs) -> None:
    """Whoever is called can be loaded before whoever calls it, and every model is there once."""
    order = load_order(configs)
    assert sorted(order) == sorted(configs)
    for name, config in configs.items():
        assert all(order.index(called) < order.index(name) for called in called_models(config, configs))


@given(bundles(), st.integers(1, 9))
def test_pinned_bundle_can_run_only_with_its_own_members(configs: Configs, version: int) -> None:
    """Every model serves the one version, and every step asks for that one."""
    before = copy.deepcopy(configs)
    pinned = pin_bundle(configs, version)
    for config in pinned.values():
        assert config["version_policy"] == {"specific": {"versions": [version]}}
        steps = config.get("ensemble_scheduling", {}).get("step", [])
        assert {step["model_version"] for step in steps} <= {version}
    assert configs == before, "the original must stay as it was"


@given(bundles(), new_names)
def test_renaming_goes_through_the_whole_bundle_and_back(configs: Configs, words: dict[str, str]) -> None:
    """No model is called by its old name afterwards, and the opposite renaming gives what was there before."""
    names = {name: words[name] for name in configs}
    renamed = rename_bundle(configs, names)
    assert {config["name"] for config in renamed.values()} == set(names.values()) == set(renamed)
    for name, config in configs.items():
        wanted = [names[called] for called in called_models(config, configs)]
        assert called_models(renamed[names[name]], renamed) == wanted
    assert rename_bundle(renamed, {new: old for old, new in names.items()}) == configs


@given(bundles(), new_names, st.integers(1, 9))
def test_pinning_and_renaming_do_not_disturb_each_other(
    configs: Configs, words: dict[str, str], version: int
) -> None:
    """The order of the two does not matter."""
    names = {name: words[name] for name in configs}
    one = pin_bundle(rename_bundle(configs, names), version)
    assert one == rename_bundle(pin_bundle(configs, version), names)


member_names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
model_names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
staged = st.tuples(model_names, st.sampled_from(["candidate", "stable"]), st.none() | member_names)


@given(staged, staged)
def test_no_two_staged_models_share_a_name(one: tuple[Any, Any, Any], other: tuple[Any, Any, Any]) -> None:
    """Tops and members of any two ensembles, candidate or stable, have different names on staging."""
    names = [
        staged_model(model, model if member is None else f"{member}.m", staged_name(model, role))
        for model, role, member in (one, other)
    ]
    assert (names[0] == names[1]) is (one == other)


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"top": ensemble("a")}, "'top' calls the model 'a', which is not in the repository"),
        ({"top": ensemble("b"), "b": ensemble("top")}, r"b → top → b"),
        ({"top": ensemble("top")}, r"top → top"),
    ],
    ids=["a stranger", "a circle", "itself"],
)
def test_bundle_that_is_no_unit_is_refused(configs: Configs, words: str) -> None:
    """A call that leads outside or back to the caller is an error that shows the way."""
    with pytest.raises(ModelInvalidError, match=words):
        load_order(configs)


@pytest.mark.parametrize("names", [{"a": "x"}, {"a": "x", "b": "x"}, {"a": "x", "b": "y", "c": "z"}])
def test_half_a_renaming_is_refused(names: dict[str, str]) -> None:
    """Every model needs a new name of its own."""
    with pytest.raises(ValueError, match="a different name"):
        rename_bundle({"a": program(), "b": program()}, names)


def test_parameter_that_names_no_model_is_left_alone() -> None:
    """A parameter is a call only where it names one of the models."""
    configs = {"a": program(), "b": {"parameters": {"tokenizer_model_name": {"string_value": "llama"}}}}
    assert called_models(configs["b"], configs) == []
    renamed = rename_bundle(configs, {"a": "x", "b": "y"})
    assert renamed["y"]["parameters"] == configs["b"]["parameters"]
    assert renamed["x"]["parameters"]["factor"] == {"string_value": "a"}, "another key's value is no name"


def test_hash_of_one_model_is_its_own() -> None:
    """A repository of one model hashes as that model; with a second one every change in either shows."""
    one = {"name": "a", **program()}
    assert bundle_config_sha256({"a": one}) == config_sha256(one)
    pair = {"a": one, "top": ensemble("a")}
    changed = {**pair, "a": {**one, "max_batch_size": 3}}
    assert len({bundle_config_sha256(bundle) for bundle in ({"a": one}, pair, changed)}) == 3
    assert bundle_config_sha256(dict(reversed(pair.items()))) == bundle_config_sha256(pair)


def test_members_file_names_what_the_ensemble_is_made_of() -> None:
    """The file in an ensemble's version folder says which members, in which version."""
    pair = {"a": program(), "top": ensemble("a")}
    assert b'"members": [\n    "a"\n  ]' in members_file(pair, "top", 4)
    assert b'"version": 4' in members_file(pair, "top", 4)
    assert (is_ensemble(pair["top"]), is_ensemble(pair["a"])) == (True, False)


def test_departure_is_what_was_asked_for_and_is_not_served() -> None:
    """Defaults that the server fills in are no departure; another value, a lost step and a lost field are."""
    wanted = {"name": "a", "max_batch_size": 8, "input": [{"name": "x", "dims": ["2"]}], **ensemble("b", "c")}
    served = {
        **copy.deepcopy(wanted),
        "input": [{"name": "x", "dims": [2], "optional": False}],
        "default_model_filename": "model.py",
        "instance_group": [{"name": "a_0", "count": 1}],
    }
    assert departures(wanted, served) == []
    assert departures(wanted, {**served, "max_batch_size": 4}) == ["max_batch_size is 4 instead of 8"]
    assert "step is" in departures(wanted, {**served, **ensemble("b")})[0]
    del served["input"]
    assert departures(wanted, served)[0].startswith("input is null instead of")
