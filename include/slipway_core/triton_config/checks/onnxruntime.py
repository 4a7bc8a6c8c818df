"""What the ONNX Runtime backend wants of each tensor when it loads a model.

After its `onnxruntime_utils.cc` (`CompareDimsSupported`) and `onnxruntime.cc` (`ValidateInputs`, `ValidateOutputs`):
an input's sizes are those of the model wherever the model fixes them, and may be narrower elsewhere; an output's are
exactly the model's. With batches the model's first size is free. An input may be optional only where the model has a
value of its own for it, and takes no batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway_core.tensors import TensorSpec
from slipway_core.triton_config.case import Case, Contradiction
from slipway_core.triton_config.checks.batch_tensors import batch_targets

_NOT_CARRIED = ("BF16",)


def is_onnxruntime(config: Mapping[str, Any]) -> bool:
    """Return whether the ONNX Runtime backend serves the model."""
    return config.get("backend") == "onnxruntime" or config.get("platform") == "onnxruntime_onnx"


def onnxruntime_tensor(
    case: Case, place: str, role: str, entry: Mapping[str, Any], tensor: TensorSpec
) -> Iterator[Contradiction]:
    """Yield what the backend refuses about one tensor of the configuration, whose own is `tensor`."""
    if tensor.datatype in _NOT_CARRIED:
        yield Contradiction(
            f"{place}.data_type",
            "is a type that the ONNX Runtime backend does not carry",
            "FP32 or FP16 between clients and the model",
            tensor.datatype,
            f"Export the model with a Cast at `{tensor.name}`, so that only its inside computes in {tensor.datatype}.",
        )
        return
    if role == "input":
        yield from _optional(case, place, entry, tensor)
    if role == "input" and entry.get("allow_ragged_batch"):
        yield from _ragged(place, tensor)
    elif role == "input" or tensor.name not in batch_targets(case.config, "batch_output"):
        yield from _sizes(case, place, role, _dims(entry), tensor)


def _optional(
    case: Case, place: str, entry: Mapping[str, Any], tensor: TensorSpec
) -> Iterator[Contradiction]:
    has_value = tensor.name in {one.name for one in case.overridable}
    if not entry.get("optional"):
        if has_value:
            yield Contradiction(
                f"{place}.optional",
                "is missing: the model has a default value for this input",
                "`optional: true`, or no such input",
                "false",
                "Write `optional: true`, or leave the input out.",
            )
        return
    if not has_value:
        yield Contradiction(
            f"{place}.optional",
            f"does not go with `{tensor.name}`, for which the model has no default value",
            "an initializer of the model that is also an input of its graph",
            "an input that every request must bring",
            "Leave `optional` out, or export the model with a default value for it.",
        )
    if case.max_batch_size:
        yield Contradiction(
            f"{place}.optional",
            "does not go with batches: the ONNX Runtime backend refuses to load it",
            "max_batch_size 0",
            f"max_batch_size {case.max_batch_size}",
            "Set `max_batch_size: 0`, or leave the input out.",
        )
    if entry.get("allow_ragged_batch"):
        yield Contradiction(
            f"{place}.allow_ragged_batch",
            "does not go with an optional input",
            "one of the two",
            "both",
            "Leave one of them out.",
        )


def _ragged(place: str, tensor: TensorSpec) -> Iterator[Contradiction]:
    if tensor.shape != (-1,):
        yield Contradiction(
            f"{place}.allow_ragged_batch",
            "does not go with the model's shape: a ragged batch is handed over as one flat tensor",
            "an input of shape [-1]",
            str(tensor),
            "Export the model with a flat input, or leave `allow_ragged_batch` out.",
        )


def _sizes(
    case: Case, place: str, role: str, dims: Sequence[int], tensor: TensorSpec
) -> Iterator[Contradiction]:
    if not tensor.shape:
        if any(size != 1 for size in dims):
            yield Contradiction(
                f"{place}.dims",
                f"does not fit the model's `{tensor.name}`, whose shape the model does not state",
                "[1]",
                str(list(dims)),
                "Export the model with the shape of this tensor, or write `dims: [1]`.",
            )
        return
    if case.max_batch_size and tensor.shape[0] != -1:
        yield Contradiction(
            f"{place}.dims",
            f"does not go with batches: the model fixes the first size of `{tensor.name}`",
            f"-1 as its first size in the model, since max_batch_size is {case.max_batch_size}",
            str(tensor),
            "Export the model with a dynamic batch dimension, or set `max_batch_size: 0`.",
        )
        return
    shape = [*([-1] if case.max_batch_size else []), *dims]
    exact = role == "output"
    if len(shape) == len(tensor.shape) and all(
        ours == theirs or (theirs == -1 and not exact)
        for ours, theirs in zip(shape, tensor.shape, strict=True)
    ):
        return
    wanted = list(tensor.shape[1:] if case.max_batch_size else tensor.shape)
    yield Contradiction(
        f"{place}.dims",
        f"does not fit the model's `{tensor.name}`: the ONNX Runtime backend refuses to load it",
        f"{wanted}"
        + (", exactly" if exact else " (-1: any size)")
        + (
            f"; the model's own is {tensor}, of which the first size is the batch"
            if case.max_batch_size
            else ""
        ),
        str(list(dims)),
        f"Write `dims: {wanted}` in config.pbtxt, or leave `{role}` out there.",
    )


def _dims(entry: Mapping[str, Any]) -> list[int]:
    reshape = entry.get("reshape")
    return [int(size) for size in (entry.get("dims") if reshape is None else reshape.get("shape")) or ()]
