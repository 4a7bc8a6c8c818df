"""The names of the assets, and the aliases through which a task emits events of models that no DAG file names."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

from slipway_core.identifiers import validate_model_name
from slipway_core.record.milestones import MilestoneKind

# With "x-" before it Airflow takes the address as it is.
SCHEME = "x-slipway"
_LAST_PART: dict[MilestoneKind, str] = {
    "live": "live",
    "rolled_back": "rolled-back",
    "rejected": "rejected",
}

ANY_MODEL_LIVE = AssetAlias("slipway-any-model-live")
ANY_MODEL_ROLLED_BACK = AssetAlias("slipway-any-model-rolled-back")
ANY_MODEL_REJECTED = AssetAlias("slipway-any-model-rejected")
_ALIASES: dict[MilestoneKind, AssetAlias] = {
    "live": ANY_MODEL_LIVE,
    "rolled_back": ANY_MODEL_ROLLED_BACK,
    "rejected": ANY_MODEL_REJECTED,
}
ALL_ALIASES = tuple(_ALIASES.values())


def live_asset(model: str) -> Asset:
    """Return the asset that has an event when a version of the model is promoted.

    :param model: as its release file is named.
    :raises UserError: no model can have that name.
    """
    return asset_of(model, "live")


def rolled_back_asset(model: str) -> Asset:
    """Return the asset that has an event when users are taken back from a version, by the judge or by hand.

    :param model: as its release file is named.
    :raises UserError: no model can have that name.
    """
    return asset_of(model, "rolled_back")


def rejected_asset(model: str) -> Asset:
    """Return the asset that has an event when a version is rejected, by its release or by a person.

    :param model: as its release file is named.
    :raises UserError: no model can have that name.
    """
    return asset_of(model, "rejected")


def asset_of(model: str, kind: MilestoneKind) -> Asset:
    """Return the model's asset of this kind; its name is its address.

    :raises UserError: no model can have that name.
    """
    uri = f"{SCHEME}://models/{validate_model_name(model)}/{_LAST_PART[kind]}"
    return Asset(name=uri, uri=uri)


def alias_of(kind: MilestoneKind) -> AssetAlias:
    """Return the alias of this kind's assets, of all models."""
    return _ALIASES[kind]
