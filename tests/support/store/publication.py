"""A version that is about to be published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipway_core.publishing.manifest import Manifest

if TYPE_CHECKING:
    from slipway.registry.registry import StoredSource


@dataclass(frozen=True)
class Publication:
    """A version about to be published: its manifest, where its files come from, and its golden set's key."""

    manifest: Manifest
    sources: dict[str, bytes | StoredSource]
    golden: str
