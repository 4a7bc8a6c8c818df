"""Made-up inputs: which axis of each counts the rows, which sizes a varying one may be given, and plausible values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.model_files.onnx_file import OnnxFile
from slipway.cli.plain import plain
from slipway_core.tensors import TensorSpec
from slipway_rules.row_axes import RowAxis

Array = np.ndarray[Any, Any]
MOST_VALUES = 2**27
"""Of all inputs together: a gigabyte of the widest."""
# Tried one after another: of images height and width, of all else (texts, sounds, tables) a length.
_IMAGES = ((64, 64), (224, 224), (48, 192), (320, 320), (640, 640), (32, 128), (512, 512))
_LENGTHS = (16, 512, 8, 128, 1, 576, 1024, 16_000)
_SOUNDS = (512, 16_000, 1536, 576, 256, 48_000)
_LARGEST_IMAGE = 1024
_FLOATS = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64}
_WHOLE = {
    name: np.dtype(name.lower())
    for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
}
_BATCH = re.compile(r"(batch(_?size)?|n|bs?)", re.IGNORECASE)
_STATE = re.compile(
    r"([hc][n0]?|h_?0|c_?0|.*(state|hidden|cell|cache|memory|past|context)[-_.\d]*n?)", re.IGNORECASE
)
_RATE = re.compile(r"(.*[_.])?(sr|rate|sampl\w*rate|fs)", re.IGNORECASE)
_SOUND = re.compile(r".*(audio|wav|speech|sound|samples|pcm|signal)", re.IGNORECASE)
_LENGTH = re.compile(r".*(length|lens?)s?\d*", re.IGNORECASE)
_ZERO = re.compile(r".*(token_type|segment_ids)", re.IGNORECASE)
_MASK = re.compile(r".*mask", re.IGNORECASE)
_CHANNELS = (1, 3, 4)
_SAMPLING_RATE_HZ = 16_000


@dataclass(frozen=True)
class Rows:
    """Which axis of each input counts the rows, and how many rows a request must have; None: any number."""

    axes: Mapping[str, RowAxis]
    request_rows: int | None = None


@dataclass(frozen=True)
class Sizes:
    """What a size that may vary becomes: of an image its height and width, of all else a length."""

    image: tuple[int, int]
    length: int


def is_state(name: str) -> bool:
    """Tell whether a tensor is what a model remembers from one request to the next, by its name."""
    return _STATE.fullmatch(name) is not None


def rows_of(model: OnnxFile) -> Rows:
    """Return which axis of each input counts the rows, by the shapes and the names of the sizes."""
    inputs = model.signature.inputs
    first = {symbols[0] for one in inputs if (symbols := model.symbols.get(one.name)) and symbols[0]}
    axes: dict[str, RowAxis] = {}
    for tensor in inputs:
        axis = _free_axis(tensor, model.symbols.get(tensor.name, ()), first)
        if axis is not None or not tensor.shape:
            axes[tensor.name] = "none" if axis is None else axis
    fixed = {one.name: one.shape[0] for one in inputs if one.name not in axes}
    size = _fixed_batch(model, set(fixed.values()))
    for name, found in fixed.items():
        axes[name] = 0 if found == size else "request"
    return Rows(axes, 1 if "request" in axes.values() else size)


def _free_axis(tensor: TensorSpec, symbols: Sequence[str], first: set[str]) -> int | None:
    """Return the axis of any number of rows; None: there is none."""
    named = [axis for axis, symbol in enumerate(symbols) if symbol and _BATCH.fullmatch(symbol)]
    free = [axis for axis, size in enumerate(tensor.shape) if size == -1]
    if named and named[0] in free:
        return named[0]
    if 0 in free:
        return 0
    shared = [axis for axis in free if symbols[axis : axis + 1] and symbols[axis] in first]
    if shared or (free and is_state(tensor.name)):
        return (shared or free)[0]
    return None


def _fixed_batch(model: OnnxFile, sizes: set[int]) -> int | None:
    """Return the fixed number of rows of a request; None where no fixed first size can be one."""
    if 1 in sizes:
        return 1
    answered = {one.shape[0] for one in model.signature.outputs if one.shape}
    return next(iter(sizes)) if len(sizes) == 1 and sizes <= answered else None


def possible_sizes(model: OnnxFile, rows: Rows) -> Iterator[Sizes]:
    """Yield what sizes that vary may be, the likeliest first; one alone where none varies."""
    free = [
        (one, axis) for one in model.signature.inputs for axis in _varying(one, rows.axes.get(one.name, 0))
    ]
    has_image = any(_is_image(one) for one, _ in free)
    has_sound = any(_RATE.fullmatch(one.name) or _SOUND.fullmatch(one.name) for one in model.signature.inputs)
    images = [*_exported_size(model.metadata), *_IMAGES] if has_image else [_IMAGES[0]]
    lengths = [*(_SOUNDS if has_sound else ()), *_LENGTHS]
    if not free:
        yield Sizes(_IMAGES[0], _LENGTHS[0])
    elif has_image:
        yield from (Sizes(image, _LENGTHS[0]) for image in dict.fromkeys(images))
    else:
        yield from (Sizes(_IMAGES[0], length) for length in dict.fromkeys(lengths))


def _varying(tensor: TensorSpec, axis: RowAxis) -> list[int]:
    return [place for place, size in enumerate(tensor.shape) if size == -1 and place != axis]


def _is_image(tensor: TensorSpec) -> bool:
    return len(tensor.shape) == 4 and not is_state(tensor.name)


def _exported_size(metadata: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return the size of the images that the exporter wrote down; an empty list where it did not."""
    try:
        found = json.loads(metadata.get("imgsz", ""))
        height, width = found if isinstance(found, list) else (found, found)
    except (ValueError, TypeError, RecursionError):
        return []
    sizes = [one for one in (height, width) if type(one) is int and 0 < one <= _LARGEST_IMAGE]
    return [(sizes[0], sizes[1])] if len(sizes) == 2 else []


def shape_of(tensor: TensorSpec, axis: RowAxis, rows: int, sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of an input's array for so many rows."""
    shape = list(tensor.shape)
    is_image, is_last = _is_image(tensor), len(shape) == 4 and shape[3] in _CHANNELS
    for place in _varying(tensor, axis):
        shape[place] = sizes.length
        if is_image:
            height, width = (1, 2) if is_last else (2, 3)
            shape[place] = {height: sizes.image[0], width: sizes.image[1]}.get(place, 3)
    if axis == "request":
        return (rows, *shape)
    if axis != "none":
        shape[axis] = rows
    return tuple(shape)


def made_up(
    model: OnnxFile, rows: Rows, number: int, sizes: Sizes, random: np.random.Generator
) -> dict[str, Array]:
    """Return an array for each input, as a golden set has them.

    :param number: how many rows.
    :raises CommandError: the sizes, which a file only declares, are such as no machine has room for; or an input has
        values that no array holds.
    """
    inputs = model.signature.inputs
    shapes = {one.name: shape_of(one, rows.axes[one.name], number, sizes) for one in inputs}
    _require_room({name: math.prod(shape) for name, shape in shapes.items()}, number)
    return {one.name: _values(one, shapes[one.name], sizes, random) for one in inputs}


def _require_room(wanted: Mapping[str, int], rows: int) -> None:
    if sum(wanted.values()) <= MOST_VALUES:
        return
    name = max(wanted, key=lambda one: wanted[one])
    raise CommandError(
        f"a golden set of {rows} rows is too large to make up",
        code=ExitCode.USAGE,
        expected=f"at most {MOST_VALUES} values in all inputs",
        found=f"{sum(wanted.values())}, {wanted[name]} of them in `{plain(name)[:100]}`",
        remedy="use fewer --rows, or write the golden set by hand: docs/bring-your-model.md",
    )


def _values(tensor: TensorSpec, shape: tuple[int, ...], sizes: Sizes, random: np.random.Generator) -> Array:
    name, datatype = tensor.name, tensor.datatype
    if datatype == "BYTES":
        return np.full(shape, "example")
    if datatype == "BOOL":
        return random.integers(0, 2, shape).astype(bool)
    if datatype in _WHOLE:
        return np.asarray(_whole(tensor, shape, sizes, random)).astype(_WHOLE[datatype])
    if datatype in _FLOATS:
        still = is_state(name)
        return (np.zeros(shape) if still else random.random(shape)).astype(_FLOATS[datatype])
    raise CommandError(
        f"the input `{name}` holds {datatype}, which NumPy does not support",
        code=ExitCode.USAGE,
        expected="numbers, booleans or texts",
        found=str(tensor),
        remedy="write the golden set by hand: docs/bring-your-model.md",
    )


def _whole(tensor: TensorSpec, shape: tuple[int, ...], sizes: Sizes, random: np.random.Generator) -> Any:
    name = tensor.name
    if _RATE.fullmatch(name):
        return np.full(shape, min(_SAMPLING_RATE_HZ, np.iinfo(_WHOLE[tensor.datatype]).max))
    if _MASK.match(name):
        return np.ones(shape)
    if _ZERO.match(name) or is_state(name):
        return np.zeros(shape)
    if _LENGTH.fullmatch(name) and len(tensor.shape) <= 2:
        return np.full(shape, min(sizes.length, np.iinfo(_WHOLE[tensor.datatype]).max))
    is_picture = tensor.datatype == "UINT8" and len(shape) >= 3
    return random.integers(0, 256 if is_picture else 2, shape)
