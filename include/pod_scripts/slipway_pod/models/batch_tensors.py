"""What Triton makes of a batch before an ONNX model sees it, for a request of one row.

After `backend_input_collector.cc`: an input with `allow_ragged_batch` arrives as one flat tensor, `batch_input` counts
the elements of each request, and `batch_output` gives each request its part of a flat output.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipway_pod.models.tensors import Tensor, numpy_name

_KINDS = (
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
)


@dataclass(frozen=True)
class Made:
    """One entry of `batch_input`: the inputs `targets` of the model, made of the request's input `source`."""

    kind: str
    datatype: str
    source: str
    targets: tuple[str, ...]

    def of(self, shape: tuple[int, ...]) -> Any:
        """Return the tensor for one request, whose source has this shape."""
        import numpy as np

        dtype, count = numpy_name(self.datatype), int(np.prod(shape))
        if self.kind == "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE":
            return np.zeros(count, dtype)
        if self.kind == "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO":
            return np.array([0, count], dtype)
        if self.kind == "BATCH_ITEM_SHAPE":
            return np.array([shape[1:]], dtype)
        if self.kind == "BATCH_ITEM_SHAPE_FLATTEN":
            return np.array(shape[1:], dtype)
        return np.array([count], dtype)


@dataclass(frozen=True)
class BatchTensors:
    """What a configuration says of the tensors of a batch.

    :ivar ragged: by flat input of the model, the shape that clients send.
    :ivar scattered: by flat output of the model, the input whose shape clients get.
    """

    ragged: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    made: tuple[Made, ...] = ()
    scattered: Mapping[str, str] = field(default_factory=dict)

    def sent(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the inputs of a request, of those that the model has."""
        fed = {name for one in self.made for name in one.targets}
        return tuple(
            replace(one, shape=self.ragged.get(one.name, one.shape)) for one in inputs if one.name not in fed
        )

    def fed(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the model gets of a request of one row."""
        feeds = {name: array.reshape(-1) if name in self.ragged else array for name, array in request.items()}
        for one in self.made:
            values = one.of(request[one.source].shape)
            feeds.update((name, values) for name in one.targets)
        return feeds

    def answered(self, output: str, values: Any, request: Mapping[str, Any]) -> Any:
        """Return what clients get of an output, for such a request."""
        if output not in self.scattered:
            return values
        shape = request[self.scattered[output]].shape
        return values.reshape(shape) if values.size == request[self.scattered[output]].size else values


def batch_tensors(text: str) -> BatchTensors:
    """Return the argument `--batch-tensors`: a JSON object with `ragged`, `made` and `scattered`."""
    try:
        document = json.loads(text)
        found = BatchTensors(
            {str(name): tuple(int(size) for size in shape) for name, shape in document["ragged"].items()},
            tuple(
                Made(
                    str(one["kind"]),
                    str(one["datatype"]),
                    str(one["source"]),
                    tuple(map(str, one["targets"])),
                )
                for one in document["made"]
            ),
            {str(name): str(source) for name, source in document["scattered"].items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"expected ragged, made and scattered as JSON: {error!r}") from error
    strange = [one for one in found.made if one.kind not in _KINDS or one.datatype not in ("FP32", "INT32")]
    if strange:
        raise argparse.ArgumentTypeError(f"Triton makes no {strange[0].kind} of {strange[0].datatype}")
    return found


def add_batch_tensors_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument that says what Triton makes of a batch; without it, nothing."""
    text = "what Triton makes of a batch, as JSON with `ragged`, `made` and `scattered`"
    parser.add_argument("--batch-tensors", type=batch_tensors, metavar="JSON", help=text)
