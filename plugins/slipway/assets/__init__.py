"""The assets on which other DAGs may be scheduled: a model's version is live, was rolled back, or was rejected."""

from __future__ import annotations

from slipway.assets.of_models import (
    ALL_ALIASES,
    ANY_MODEL_LIVE,
    ANY_MODEL_REJECTED,
    ANY_MODEL_ROLLED_BACK,
    alias_of,
    asset_of,
    live_asset,
    rejected_asset,
    rolled_back_asset,
)

__all__ = [
    "ALL_ALIASES",
    "ANY_MODEL_LIVE",
    "ANY_MODEL_REJECTED",
    "ANY_MODEL_ROLLED_BACK",
    "alias_of",
    "asset_of",
    "live_asset",
    "rejected_asset",
    "rolled_back_asset",
]
