"""A request's tensors as a DAG writes them, and an answer's as XCom holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tritonclient.utils import triton_to_np_dtype

from airflow_provider_triton.client.results import ModelMetadata, TensorSpec
from airflow_provider_triton.errors import UserError

# XCom is a database: larger answers belong elsewhere.
VALUES_LIMIT = 10_000
_MODEL_BYTES = "BYTES"
# NumPy has no such type, and a conversion would not be what the model is asked in production.
_UNSUPPORTED = frozenset({"BF16"})


def arrays_of(inputs: Mapping[str, Any], metadata: ModelMetadata, model: str) -> dict[str, np.ndarray]:
    """Return the arrays of a request.

    :param inputs: nested lists by the input's name, the batch dimension first where the model has one.
    :raises UserError: a name is not the model's, or the values do not fit its datatype or shape.
    """
    tensors = {tensor.name: tensor for tensor in metadata.inputs}
    unknown = sorted(set(inputs) - set(tensors))
    if unknown:
        raise UserError(
            f"{model!r} has no input {', '.join(unknown)}",
            expected=f"inputs among {', '.join(tensors)}",
            found=", ".join(unknown),
            remedy="correct `inputs`",
        )
    return {name: _array(values, tensors[name], model) for name, values in inputs.items()}


def zeros_of(metadata: ModelMetadata, model: str) -> dict[str, np.ndarray]:
    """Return a request of zeros, or empty strings, with 1 for each dimension that is open."""
    return {
        tensor.name: _array(
            np.full(
                [max(1, size) for size in tensor.shape], "" if tensor.datatype == _MODEL_BYTES else 0
            ).tolist(),
            tensor,
            model,
        )
        for tensor in metadata.inputs
    }


def lists_of(arrays: Mapping[str, np.ndarray], model: str) -> dict[str, Any]:
    """Return an answer as nested lists, with text for bytes.

    :raises UserError: it is too large for XCom.
    """
    size = sum(values.size for values in arrays.values())
    if size > VALUES_LIMIT:
        raise UserError(
            f"{model!r} returns more than an XCom should hold",
            expected=f"at most {VALUES_LIMIT} values",
            found=str(size),
            remedy="request fewer `outputs`, or send fewer rows",
        )
    return {name: _plain(values.tolist()) for name, values in arrays.items()}


def _array(values: Any, tensor: TensorSpec, model: str) -> np.ndarray:
    kind = None if tensor.datatype in _UNSUPPORTED else triton_to_np_dtype(tensor.datatype)
    if kind is None:
        raise _unfit(tensor, model, f"the datatype {tensor.datatype}, which cannot be expressed in a DAG")
    try:
        array = np.array(_bytes(values) if tensor.datatype == _MODEL_BYTES else values, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise _unfit(tensor, model, str(error)) from error
    if len(array.shape) != len(tensor.shape) or any(
        wanted not in (-1, size) for wanted, size in zip(tensor.shape, array.shape, strict=True)
    ):
        raise _unfit(tensor, model, f"the shape {list(array.shape)}")
    return array


def _unfit(tensor: TensorSpec, model: str, found: str) -> UserError:
    return UserError(
        f"the values for the input {tensor.name!r} of {model!r} do not fit",
        expected=f"{tensor.datatype} of the shape {list(tensor.shape)}, where -1 is any size",
        found=found,
        remedy="correct `inputs`",
    )


def _bytes(values: Any) -> Any:
    if isinstance(values, list):
        return [_bytes(value) for value in values]
    return values.encode() if isinstance(values, str) else values


def _plain(values: Any) -> Any:
    if isinstance(values, list):
        return [_plain(value) for value in values]
    return values.decode(errors="replace") if isinstance(values, bytes) else values
