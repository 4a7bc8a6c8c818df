"""What a configuration is checked against, and what a contradiction consists of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway_core.tensors import ModelSignature, TensorSpec

# One optimisation profile of an engine: `min`, `opt` and `max`, each the shape of every input, batch first.
EngineProfile = Mapping[str, Mapping[str, Sequence[int]]]


@dataclass(frozen=True)
class Contradiction:
    """What is wrong with a field; `field` is its path in config.pbtxt."""

    field: str
    what: str
    expected: str
    found: str
    remedy: str


@dataclass(frozen=True)
class Case:
    """A configuration with what it is checked against, as far as that is known.

    `signature` is the model file's own, `profiles` are its engine's, `files` the names in its version's folder.
    `overridable` are the model's initializers that a request may replace, which are no inputs of the signature.
    """

    config: Mapping[str, Any]
    signature: ModelSignature | None
    profiles: Sequence[EngineProfile]
    version: int | None
    files: Collection[str] = ()
    overridable: Collection[TensorSpec] = ()

    @property
    def max_batch_size(self) -> int:
        """0: no batch dimension."""
        return int(self.config.get("max_batch_size") or 0)

    def message(self, name: str) -> Mapping[str, Any]:
        """Return a message of the configuration, empty if it is not there."""
        return self.config.get(name) or {}

    def entries(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return a list of the configuration, empty if it is not there."""
        return self.config.get(name) or ()
