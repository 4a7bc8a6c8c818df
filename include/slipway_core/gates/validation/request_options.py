"""What a model's configuration says of requests: which inputs are optional, and whether several responses come.

A decoupled model sends none, one or several responses to a request, each with some of the outputs. Triton answers such
requests over its streaming calls alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from slipway_core.errors import ValidationRefusedError
from slipway_core.gates.validation.scores import Array, no_answers_of_this_kind
from slipway_core.spec.validation import TextValidation, Validation


def is_decoupled(configs: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether a model may send several responses; `configs` are its own and its members'.

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


def gather_responses(responses: Sequence[Sequence[Array]], validation: Validation) -> Array:
    """Return one answer for each request out of its responses: one output's arrays, in the order of their arrival.

    Texts are joined, or the last counts, as `validation.responses` says, and a request without a response has the
    answer None: (rows,), objects. Of other kinds the last response counts, which has the request's rows; they are
    put together.

    :raises ValidationRefusedError: for a request of such a kind without a response.
    :raises SpecError: for a response with several texts.
    """
    if isinstance(validation, TextValidation):
        return np.asarray([_text(arrays, validation) for arrays in responses], dtype=object)
    empty = [number for number, arrays in enumerate(responses) if not arrays]
    if empty:
        raise ValidationRefusedError(
            "the server did not answer every golden row",
            expected=f"a response with `{validation.output}` to each request",
            found=f"none to {len(empty)} of {len(responses)}, the first of them number {empty[0]}",
            remedy="Look at the staging server's log.",
        )
    return np.concatenate([arrays[-1] for arrays in responses])


def _text(arrays: Sequence[Array], validation: TextValidation) -> bytes | None:
    pieces: list[bytes] = []
    for array in arrays:
        if array.dtype.kind not in "OS" or array.size > 1:
            raise no_answers_of_this_kind("text", "one text a response: BYTES [1] or [1, 1]", array)
        pieces += array.reshape(-1).tolist()
    if not arrays:
        return None
    return b"".join(pieces if validation.responses == "join" else pieces[-1:])
