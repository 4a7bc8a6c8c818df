"""A version under its own name, and the alias that users ask: an ensemble of one step without files.

Each version of a model is loaded as a model of its own (`digits_v7`), which nobody but the alias asks. The alias has
the model's own name. Its only step names the version's model, and its own version is that number: so every answer tells
the true version. To load the alias again with another step takes milliseconds, whatever the model weighs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.bucket_layout import staged_model
from slipway_core.errors import ModelInvalidError
from slipway_core.identifiers import validate_model_name
from slipway_core.triton_config.ensemble import (
    Configs,
    is_ensemble,
    load_order,
    pin_bundle,
    rename_bundle,
)
from slipway_core.triton_config.options import Config

MANIFEST_PARAMETER = "slipway_manifest_sha256"
# Triton wants a folder for each version, also of an ensemble, which has no files; the load brings this one.
PLACEHOLDER = b"{}\n"
_STEP = re.compile(r"(?P<model>[a-z0-9-]+)_v(?P<version>[1-9][0-9]*)")


def version_name(model: str, version: int) -> str:
    """Return what a version is called on the servers; no model's name has an underscore."""
    return f"{validate_model_name(model)}_v{version}"


def next_name(model: str) -> str:
    """Return the name under which the next alias is tried before users get it."""
    return f"{validate_model_name(model)}_next"


@dataclass(frozen=True)
class LoadedVersion:
    """A version as a server loads it.

    :param name: what its outermost model is called there.
    :param configs: the configuration of each of its models by its name there, in the order of the loads.
    :param manifest_sha256: digest of the manifest of what is served.
    """

    model: str
    version: int
    name: str
    configs: Configs
    manifest_sha256: str

    @property
    def config(self) -> Config:
        """Return the outermost model's configuration."""
        return self.configs[self.name]

    @property
    def target(self) -> AliasTarget:
        """Return where an alias of it leads."""
        return AliasTarget(self.name, self.version, self.manifest_sha256)

    def alias(self, name: str | None = None) -> Config:
        """Return the configuration of the alias that leads to this version.

        :param name: instead of the model's own.
        """
        return alias_config(self.config, name or self.model, self.version, self.manifest_sha256)


def loaded_version(
    model: str, version: int, configs: Mapping[str, Config], manifest_sha256: str
) -> LoadedVersion:
    """Return how a published version is loaded beside others.

    :param configs: as published, by the models' names in the version's repository.
    :raises ModelInvalidError: an alias cannot lead to it.
    """
    name = version_name(model, version)
    names = {one: staged_model(model, one, name) for one in configs}
    placed = rename_bundle(pin_bundle(configs, version), names)
    ordered = {one: placed[one] for one in load_order(placed)}
    return LoadedVersion(model, version, name, ordered, manifest_sha256)


def alias_config(config: Mapping[str, Any], name: str, version: int, manifest_sha256: str) -> Config:
    """Return the configuration of an ensemble that passes all to one version of one model.

    :param config: that model's, under its name on the servers.
    :raises ModelInvalidError: it names no inputs or no outputs.
    """
    inputs, outputs = list(config.get("input") or ()), list(config.get("output") or ())
    if not inputs or not outputs:
        raise ModelInvalidError(
            f"no alias can point to a version of {name!r}",
            expected="inputs and outputs in its configuration",
            found="none of one kind",
            remedy="write both into its config.pbtxt",
        )
    step = {
        "model_name": config["name"],
        "model_version": version,
        "input_map": {str(one["name"]): str(one["name"]) for one in inputs},
        "output_map": {str(one["name"]): str(one["name"]) for one in outputs},
    }
    alias: Config = {
        "name": name,
        "platform": "ensemble",
        "max_batch_size": int(config.get("max_batch_size") or 0),
        "version_policy": {"specific": {"versions": [version]}},
        "input": [_tensor(one) for one in inputs],
        "output": [_tensor(one) for one in outputs],
        "ensemble_scheduling": {"step": [step]},
        "parameters": {MANIFEST_PARAMETER: {"string_value": manifest_sha256}},
    }
    if (config.get("model_transaction_policy") or {}).get("decoupled"):
        alias["model_transaction_policy"] = {"decoupled": True}
    return alias


@dataclass(frozen=True)
class AliasTarget:
    """Where an alias leads."""

    name: str
    version: int
    manifest_sha256: str


def alias_target(config: Mapping[str, Any]) -> AliasTarget | None:
    """Return where an alias of this project leads; None: this is the configuration of another model."""
    steps = list((config.get("ensemble_scheduling") or {}).get("step") or ())
    stated = ((config.get("parameters") or {}).get(MANIFEST_PARAMETER) or {}).get("string_value")
    if not is_ensemble(config) or len(steps) != 1 or stated is None:
        return None
    found = _STEP.fullmatch(str(steps[0].get("model_name")))
    return (
        None
        if found is None
        else AliasTarget(str(steps[0].get("model_name")), int(found["version"]), str(stated))
    )


def alias_files(version: int) -> dict[str, bytes]:
    """Return the files that the load of an alias brings: so it needs nothing in the server's repository."""
    return {f"{version}/alias.json": PLACEHOLDER}


def _tensor(tensor: Mapping[str, Any]) -> Config:
    """Return a tensor as clients see it; reshapes and the like are the model's own."""
    seen = {field: tensor[field] for field in ("name", "data_type", "dims")}
    return {**seen, "optional": True} if tensor.get("optional") else seen
