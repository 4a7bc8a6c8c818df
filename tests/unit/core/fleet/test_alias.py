"""A version under a name of its own, and the alias that leads to it."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import ModelInvalidError
from slipway_core.fleet.alias import AliasTarget, alias_config, alias_target, loaded_version
from slipway_core.triton_config.canonical import config_sha256

DIGEST = "d" * 64


def single(**fields: Any) -> dict[str, Any]:
    """Return the configuration of a model with one input and one output."""
    return {
        "name": "digits",
        "platform": "onnxruntime_onnx",
        "max_batch_size": 8,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [2], "reshape": {"shape": [1, 2]}}],
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [2]}],
        **fields,
    }


def test_version_has_a_name_of_its_own_and_is_pinned() -> None:
    """Two versions stand beside each other, each with its own configuration."""
    loaded = loaded_version("digits", 7, {"digits": single()}, DIGEST)
    assert list(loaded.configs) == ["digits_v7"]
    assert loaded.config["name"] == "digits_v7"
    assert loaded.config["version_policy"] == {"specific": {"versions": [7]}}


def test_members_of_an_ensemble_come_before_it() -> None:
    """An ensemble's members are named after its version, pinned to it, and loaded first."""
    step = {"model_name": "scale", "model_version": -1, "input_map": {"x": "x"}, "output_map": {"y": "y"}}
    top = single(platform="ensemble", ensemble_scheduling={"step": [step]})
    loaded = loaded_version("digits", 7, {"digits": top, "scale": single(name="scale")}, DIGEST)
    assert list(loaded.configs) == ["digits_v7__scale", "digits_v7"]
    called = loaded.config["ensemble_scheduling"]["step"][0]
    assert (called["model_name"], called["model_version"]) == ("digits_v7__scale", 7)


def test_alias_tells_the_true_version() -> None:
    """Its own version is that of the model that it leads to, and its tensors are those that clients see."""
    alias = loaded_version("digits", 7, {"digits": single()}, DIGEST).alias()
    assert alias["name"] == "digits"
    assert alias["version_policy"] == {"specific": {"versions": [7]}}
    assert alias["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}]
    assert alias_target(alias) == AliasTarget("digits_v7", 7, DIGEST)


def test_alias_of_another_version_is_another_configuration() -> None:
    """So a server loads it anew."""
    six, seven = (loaded_version("digits", one, {"digits": single()}, DIGEST).alias() for one in (6, 7))
    assert config_sha256(six) != config_sha256(seven)


def test_answers_that_come_in_parts_come_so_through_the_alias() -> None:
    """A decoupled model has a decoupled alias."""
    config = single(model_transaction_policy={"decoupled": True})
    assert alias_config(config, "digits", 7, DIGEST)["model_transaction_policy"] == {"decoupled": True}
    assert "model_transaction_policy" not in alias_config(single(), "digits", 7, DIGEST)


def test_input_that_may_be_left_out_may_be_left_out_of_a_request_to_the_alias() -> None:
    """What is optional stays so."""
    tensor = {"name": "x", "data_type": "TYPE_FP32", "dims": [2], "optional": True}
    assert alias_config(single(input=[tensor]), "digits", 7, DIGEST)["input"] == [tensor]


def test_model_without_outputs_is_refused() -> None:
    """An ensemble passes tensors by name; one that has none is refused before anything is done."""
    with pytest.raises(ModelInvalidError, match="no alias can point"):
        alias_config(single(output=[]), "digits", 7, DIGEST)


@pytest.mark.parametrize(
    "config",
    [single(), single(platform="ensemble"), {"ensemble_scheduling": {"step": [{"model_name": "x"}]}}],
)
def test_other_models_are_no_aliases(config: dict[str, Any]) -> None:
    """A plain model, and an ensemble of the user's, lead nowhere."""
    assert alias_target(config) is None
