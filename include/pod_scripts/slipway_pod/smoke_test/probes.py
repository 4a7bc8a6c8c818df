"""Boundary inputs: requests at and beyond the limits of what a model takes, made of a golden row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Tensor
from slipway_pod.smoke_test.requests import LENGTH_HEADER, Answered, Asker, WireTensor, wire

# The largest batch is left out where its tensors would be larger.
LARGEST_REQUEST_BYTES = 64 * 2**20
LONG_TEXT_BYTES = 2**16
NOT_UTF8 = b"\xff\xfe\x00\xc3\x28"
NO_SUCH_INPUT = "slipway_no_such_input"


@dataclass(frozen=True)
class Probe:
    """One request: what it is called in the report, over what it goes, and how it is sent."""

    name: str
    via: str
    send: Callable[[Asker], Answered]


@dataclass(frozen=True)
class Model:
    """What is asked: its name, its inputs as the server tells them, its largest batch (0: no batch dimension).

    :ivar is_ragged: a request has one row, for the server counts the requests of a batch and not their rows.
    """

    name: str
    inputs: tuple[Tensor, ...]
    max_batch_size: int
    is_ragged: bool = False


def golden_request(model: Model, golden: GoldenRows, rows: Sequence[int]) -> list[WireTensor]:
    """Return the request for some golden rows."""
    taken = golden.take(rows)
    return [wire(one.name, one.datatype, taken[one.name]) for one in model.inputs if one.name in taken]


def probes_of(model: Model, golden: GoldenRows, rows: Sequence[int]) -> list[Probe]:
    """Return all boundary inputs for a model, the tame ones first.

    :param rows: the golden rows of an ordinary request.
    """
    whole = list(_whole_requests(model, golden, rows))
    both = [Probe(name, via, _sender(tensors, via)) for name, tensors in whole for via in ("grpc", "http")]
    return [*both, *_malformed(model, golden_request(model, golden, rows))]


def _sender(tensors: Sequence[WireTensor], via: str) -> Callable[[Asker], Answered]:
    if via == "grpc":
        return lambda asker: asker.ask(tensors)
    return lambda asker: asker.ask_http(tensors)


def _whole_requests(
    model: Model, golden: GoldenRows, rows: Sequence[int]
) -> Iterator[tuple[str, list[WireTensor]]]:
    taken = golden.take(rows)
    inputs = [(one, taken[one.name]) for one in model.inputs if one.name in taken]
    for name, change in (
        ("zeros", _zeros),
        ("largest values", _largest),
        ("smallest values", _smallest),
        ("NaN", _nan),
        ("infinity", _infinity),
        ("empty texts", _text(b"")),
        ("long texts", _text(b"a" * LONG_TEXT_BYTES)),
        ("texts that are not UTF-8", _text(NOT_UTF8)),
    ):
        changed = [(one, change(array)) for one, array in inputs]
        if any(array is not None for _, array in changed):
            yield (
                name,
                [
                    wire(one.name, one.datatype, before if array is None else array)
                    for (one, array), (_, before) in zip(changed, inputs, strict=True)
                ],
            )
    yield from _batches(model, golden, rows)
    request = golden_request(model, golden, rows)
    first, rest = request[0], request[1:]
    yield "another datatype", [_retyped(first), *rest]
    yield "an unknown input", [WireTensor(NO_SUCH_INPUT, first.datatype, first.shape, first.raw), *rest]
    yield "a missing input", rest
    yield (
        "one dimension too many",
        [WireTensor(first.name, first.datatype, (*first.shape, 1), first.raw), *rest],
    )
    yield (
        "a negative size",
        [WireTensor(first.name, first.datatype, (-1, *first.shape[1:]), first.raw), *rest],
    )
    yield (
        "fewer bytes than the shape needs",
        [
            WireTensor(first.name, first.datatype, first.shape, first.raw[:-1]),
            *rest,
        ],
    )


def _batches(model: Model, golden: GoldenRows, rows: Sequence[int]) -> Iterator[tuple[str, list[WireTensor]]]:
    """Yield the largest batch, one more, and none at all; where the rows are a batch on the first axis."""
    if model.max_batch_size < 1 or model.is_ragged or any(golden.axes.get(name, 0) != 0 for name in golden):
        return
    row_bytes = sum(len(one.raw) for one in golden_request(model, golden, rows)) / max(len(rows), 1)
    for name, size in (
        ("the largest batch", model.max_batch_size),
        ("one row more than the largest batch", model.max_batch_size + 1),
    ):
        if size * row_bytes <= LARGEST_REQUEST_BYTES:
            yield name, golden_request(model, golden, [row % golden.rows for row in range(size)])
    yield (
        "no row at all",
        [
            WireTensor(one.name, one.datatype, (0, *one.shape[1:]), b"")
            for one in golden_request(model, golden, rows)
        ],
    )


def _zeros(array: Any) -> Any:
    import numpy as np

    return None if array.dtype.kind in "USO" else np.zeros_like(array)


def _limit(array: Any, name: str) -> Any:
    import numpy as np

    if array.dtype.kind == "b":
        return np.full_like(array, name == "max")
    if array.dtype.kind in "iu":
        return np.full_like(array, getattr(np.iinfo(array.dtype), name))
    return np.full_like(array, getattr(np.finfo(array.dtype), name)) if array.dtype.kind == "f" else None


def _largest(array: Any) -> Any:
    return _limit(array, "max")


def _smallest(array: Any) -> Any:
    return _limit(array, "min")


def _nan(array: Any) -> Any:
    import numpy as np

    return np.full_like(array, np.nan) if array.dtype.kind == "f" else None


def _infinity(array: Any) -> Any:
    import numpy as np

    return np.full_like(array, np.inf) if array.dtype.kind == "f" else None


def _text(text: bytes) -> Callable[[Any], Any]:
    import numpy as np

    def change(array: Any) -> Any:
        if array.dtype.kind not in "USO":
            return None
        changed = np.empty(array.shape, dtype=object)
        changed[...] = text
        return changed

    return change


def _retyped(tensor: WireTensor) -> WireTensor:
    """Return the tensor with the same bytes, said to be of another type of the same width, or of none."""
    others = {"FP32": "INT32", "INT64": "FP64", "INT32": "FP32", "FP64": "INT64", "FP16": "INT16"}
    return WireTensor(tensor.name, others.get(tensor.datatype, "FP32"), tensor.shape, tensor.raw)


def _malformed(model: Model, request: Sequence[WireTensor]) -> Iterator[Probe]:
    """Yield bytes that are no requests."""
    first = request[0]
    entry = {"name": first.name, "datatype": first.datatype, "shape": list(first.shape)}
    sizeless = json.dumps({"inputs": [entry]}).encode()
    lying = json.dumps({"inputs": [{**entry, "parameters": {"binary_data_size": 2**30}}]}).encode()
    for name, body, headers in (
        ("no JSON", b'{"inputs": [', {}),
        ("JSON that isn't a request", b"[1, 2, 3]", {}),
        ("an input without data", sizeless, {}),
        ("a size that the body has not", lying + first.raw[:8], {LENGTH_HEADER: str(len(lying))}),
        ("a header longer than the body", sizeless, {LENGTH_HEADER: str(2**31)}),
    ):
        yield Probe(name, "http", partial(Asker.post, body=body, headers=headers))
    yield Probe("bytes that aren't a message", "grpc", lambda asker: asker.ask_bytes(b"\xff" * 64))
    yield Probe("an empty message", "grpc", lambda asker: asker.ask_bytes(b""))
