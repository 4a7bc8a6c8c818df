"""What Triton's core wants of each tensor of a configuration, whatever model it is of.

After `model_config_utils.cc` (`ValidateModelInput`, `ValidateModelOutput`, `ValidateIOShape`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway_core.triton_config.case import Case, Contradiction

_ANY_SIZE = -1
_FORMATS = ("FORMAT_NHWC", "FORMAT_NCHW")
_TENSORRT_ONLY = ("is_shape_tensor", "is_non_linear_format_io")


def shape_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what a server refuses about a tensor's own fields: sizes, reshape, format."""
    for role in ("input", "output"):
        for index, entry in enumerate(case.entries(role)):
            place = f"{role}[{index}]"
            yield from _sizes(place, entry)
            if entry.get("reshape") is not None:
                yield from _reshape(case, place, entry)
            yield from _format(case, place, entry)


def _sizes(place: str, entry: Mapping[str, Any]) -> Iterator[Contradiction]:
    fields = {"dims": _numbers(entry.get("dims"))}
    if entry.get("reshape") is not None:
        fields["reshape.shape"] = _numbers(entry["reshape"].get("shape"))
    for field, sizes in fields.items():
        if any(size < 1 and size != _ANY_SIZE for size in sizes):
            yield Contradiction(
                f"{place}.{field}",
                "has a size that no server takes",
                "sizes from 1, or -1 for any",
                str(sizes),
                "Correct it.",
            )


def _reshape(case: Case, place: str, entry: Mapping[str, Any]) -> Iterator[Contradiction]:
    dims, shape = _numbers(entry.get("dims")), _numbers(entry["reshape"].get("shape"))
    if not shape and case.max_batch_size == 0:
        yield Contradiction(
            f"{place}.reshape",
            "leaves no dimension, and the model takes no batch",
            "one dimension at least",
            "[]",
            "Give the model's tensor a dimension, or set `max_batch_size`.",
        )
    elif _runs(dims) != _runs(shape):
        yield Contradiction(
            f"{place}.reshape.shape",
            "does not hold as many elements as `dims`",
            f"sizes whose product is that of {dims}, and each -1 in the same place among them",
            str(shape),
            "Correct `dims` or `reshape`.",
        )


def _runs(sizes: Sequence[int]) -> list[int]:
    """Return how many elements there are before, between and behind the sizes that may vary."""
    runs: list[list[int]] = [[]]
    for size in sizes:
        if size == _ANY_SIZE:
            runs.append([])
        else:
            runs[-1].append(size)
    return [math.prod(run) for run in runs]


def _format(case: Case, place: str, entry: Mapping[str, Any]) -> Iterator[Contradiction]:
    dims = _numbers(entry.get("dims"))
    if entry.get("format") in _FORMATS and len(dims) != len("HWC"):
        yield Contradiction(
            f"{place}.format",
            "does not go with the number of sizes",
            "three sizes in `dims`: the batch is not one of them",
            f"{entry['format']} with {dims}",
            "Correct `dims`, or leave `format` out.",
        )
    for field in _TENSORRT_ONLY:
        if entry.get(field) and case.config.get("platform") != "tensorrt_plan":
            yield Contradiction(
                f"{place}.{field}",
                "is for TensorRT alone",
                "`platform: tensorrt_plan`",
                str(case.config.get("platform") or case.config.get("backend") or "none"),
                "Leave it out.",
            )


def _numbers(sizes: Sequence[Any] | None) -> list[int]:
    return [int(size) for size in sizes or ()]
