"""What a model's configuration says of requests: which inputs are optional, and whether several responses come.

A decoupled model sends none, one or several responses to a request, each with some of the outputs. Triton answers such
requests over its streaming calls alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slipway_core.gates.validation.scores import Array


def is_decoupled(configs: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a model may send several responses; `configs` are its own and its members'.

    An ensemble is decoupled when one of its members is.
    """
    return any((config.get("model_transaction_policy") or {}).get("decoupled", False) for config in configs)


def optional_inputs(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the inputs that a request may leave out."""
    return frozenset(str(tensor["name"]) for tensor in config.get("input", ()) if tensor.get("optional"))


def inputs_taken(config: Mapping[str, Any], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs that a model knows: an optional one of the candidate may be new to the stable version."""
    known = {str(tensor["name"]) for tensor in config.get("input", ())}
    return {name: values for name, values in inputs.items() if not known or name in known}
