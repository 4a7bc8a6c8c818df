"""Models that are released as one: an ensemble and its members, in one Triton repository.

`Configs` holds the configuration of each model of the repository by name, in Triton's JSON form. A single
model is a repository of one; all that is said here holds for it too.

Two places of a configuration say which models are called: the steps of `ensemble_scheduling`, and parameters
whose key ends in `model_name`. Both are renamed and pinned together with what they name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from slipway_core.errors import ModelInvalidError
from slipway_core.triton_config.build import pin_versions, rename_config
from slipway_core.triton_config.canonical import canonical_config, config_sha256
from slipway_core.triton_config.departures import departures_of
from slipway_core.triton_config.options import Config
from slipway_rules import ensembles
from slipway_rules.errors import RuleError

Configs = dict[str, Config]

# The object store keeps no empty folder, and Triton wants one for each version of an ensemble.
MEMBERS_FILE = "members.json"


def is_ensemble(config: Mapping[str, Any]) -> bool:
    """Return whether a model has no files of its own and only passes tensors between others."""
    return "ensemble_scheduling" in config or config.get("platform") == "ensemble"


def called_models(config: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """Return the names of the models that this one calls: every step's, and those parameters name.

    A step's is returned whether or not it is among `known`; a parameter counts only if it names a known model,
    since its key may mean something else.
    """
    steps = (str(step.get("model_name", "")) for step in _steps(config))
    return ensembles.called_models(steps, _naming_parameters(config), known)


def load_order(configs: Mapping[str, Config]) -> list[str]:
    """Return the models so that each comes after those it calls.

    :raises ModelInvalidError: where a model calls one that is not there, or by a chain of calls itself.
    """
    calls = {name: called_models(config, configs) for name, config in configs.items()}
    try:
        return ensembles.load_order(calls, sorted(configs))
    except RuleError as error:
        raise ModelInvalidError(error.what, **error.details) from error


def pin_bundle(configs: Mapping[str, Config], version: int) -> Configs:
    """Return `configs` so that each model serves `version` alone and calls only that version of its members.

    No other version of a member, wherever it may come from, can answer for the ensemble then.
    """
    pinned = {name: pin_versions(config, [version]) for name, config in configs.items()}
    for config in pinned.values():
        for step in _steps(config):
            step["model_version"] = version
    return pinned


def rename_bundle(configs: Mapping[str, Config], names: Mapping[str, str]) -> Configs:
    """Return `configs` with every model called by its new name, by itself and by those that call it.

    :param names: the new name of every model, by the old one.
    :raises ValueError: where one is missing, or two get the same name.
    """
    if names.keys() != configs.keys() or len(set(names.values())) != len(names):
        raise ValueError(f"{dict(names)} does not give each of {', '.join(sorted(configs))} a different name")
    return {names[name]: _renamed(config, names[name], names) for name, config in configs.items()}


def bundle_config_sha256(configs: Mapping[str, Config]) -> str:
    """Return a SHA-256, in hex, of what all the configurations mean; for one model it is that model's own."""
    if len(configs) == 1:
        return config_sha256(next(iter(configs.values())))
    by_name = {name: config_sha256(config) for name, config in configs.items()}
    return hashlib.sha256(json.dumps(by_name, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def members_file(configs: Mapping[str, Config], name: str, version: int) -> bytes:
    """Return the content of an ensemble's only file: which models, in which version, it is made of."""
    content = {"ensemble": name, "version": version, "members": called_models(configs[name], configs)}
    return (json.dumps(content, indent=2) + "\n").encode()


def departures(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> list[str]:
    """Say in words where a server's configuration is not what was asked for; an empty list when it is.

    What the server has filled in beyond `wanted` is no departure.
    """
    asked = canonical_config(wanted)
    return list(departures_of(asked, canonical_config(served), asked))


def _renamed(config: Config, name: str, names: Mapping[str, str]) -> Config:
    renamed = rename_config(config, name)
    for step in _steps(renamed):
        step["model_name"] = names.get(step.get("model_name", ""), step.get("model_name", ""))
    for key, value in _naming_parameters(renamed):
        renamed["parameters"][key] = {"string_value": names.get(value, value)}
    return renamed


def _steps(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    scheduling = config.get("ensemble_scheduling") or {}
    return list(scheduling.get("step", ()))


def _naming_parameters(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Yield key and value of each parameter that may name a model."""
    return [
        (key, str(parameter.get("string_value", "")))
        for key, parameter in (config.get("parameters") or {}).items()
        if key.endswith(ensembles.CALLED_BY_PARAMETER)
    ]
