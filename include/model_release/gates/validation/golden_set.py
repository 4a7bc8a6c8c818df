"""The golden set: inputs with known answers, as training leaves them in golden.npz."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from include.model_release.errors import GoldenSetError
from include.model_release.tensors import ModelSignature, TensorSpec

Array = NDArray[Any]
Kind = Literal["classification", "regression", "text"]

_NUMPY_TYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8",
    "INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip
# By kind of answer: what the labels are called, and the kinds of NumPy types that hold them.
_LABELS: dict[Kind, tuple[str, str]] = {
    "classification": ("whole numbers", "iu"),
    "regression": ("numbers", "iuf"),
    "text": ("texts", "SU"),
}


@dataclass(frozen=True)
class GoldenSet:
    """Inputs with known answers.

    `inputs` by name, each (rows, …) in the model's datatype, optional ones only where the set has them; `labels`
    (rows,): whole numbers, fractions or texts (str). `request_rows` is how many rows a request must have, where
    the model takes no batch dimension but a first size of its own.
    """

    inputs: dict[str, Array]
    labels: Array
    request_rows: int | None = None

    @property
    def rows(self) -> int:
        """Return how many examples there are."""
        return int(self.labels.shape[0])

    def batches(self, size: int) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Yield the rows' slice and the inputs, `size` rows at a time; the last batch may be smaller."""
        step = self.request_rows or size
        for start in range(0, self.rows, step):
            rows = slice(start, min(start + step, self.rows))
            yield rows, {name: values[rows] for name, values in self.inputs.items()}


def golden_from_arrays(
    arrays: Mapping[str, Array],
    signature: ModelSignature,
    label: str,
    *,
    kind: Kind = "classification",
    optional: Collection[str] = (),
) -> GoldenSet:
    """Check the arrays of a golden set against the model's inputs and put them into its datatypes.

    `optional` names inputs that a request may leave out: the golden set need not have them. Raises
    GoldenSetError that names every column that is missing, unknown or of the wrong shape or type.
    """
    wanted = {tensor.name: tensor for tensor in signature.inputs}
    needed = {*wanted, label} - (set(optional) - {label})
    problems = [f"`{name}` is missing" for name in sorted(needed - arrays.keys())]
    problems += [f"`{name}` is no input of the model" for name in sorted(arrays.keys() - {*wanted, label})]
    labels = arrays.get(label)
    if labels is not None:
        problems += _label_problems(label, labels, kind)
    rows = labels.shape[0] if labels is not None and labels.ndim else None
    given = {name: wanted[name] for name in sorted(wanted.keys() & arrays.keys())}
    for name, tensor in given.items():
        problems += _input_problems(arrays[name], tensor, rows)
    sizes = {tensor.shape[0] for tensor in given.values() if tensor.shape and tensor.shape[0] != -1}
    if len(sizes) > 1:
        problems.append(f"inputs with different first sizes ({sorted(sizes)}) have no rows in common")
    if labels is None or problems:
        raise GoldenSetError(
            "the golden set does not fit the model",
            expected=f"{_columns_in_words(signature, optional)}, and `{label}`: {_LABELS[kind][0]} [rows]",
            found="; ".join(problems),
            remedy="Write the golden set again with one array per input and one with the labels, rows first.",
        )
    inputs = {name: _in_datatype(arrays[name], tensor) for name, tensor in given.items()}
    return GoldenSet(inputs, _labels(labels, kind), next(iter(sizes), None))


def _label_problems(name: str, labels: Array, kind: Kind) -> list[str]:
    words, kinds = _LABELS[kind]
    if labels.ndim != 1:
        return [f"`{name}` has shape {list(labels.shape)}, not [rows]"]
    if labels.dtype.kind not in kinds:
        return [f"`{name}` holds {labels.dtype}, not {words}"]
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        return [f"`{name}` holds values that are not finite"]
    return [] if labels.shape[0] else [f"`{name}` has no rows"]


def _labels(labels: Array, kind: Kind) -> Array:
    if kind == "text":
        texts = [
            text.decode(errors="replace") if isinstance(text, bytes) else text for text in labels.tolist()
        ]
        return np.asarray(texts, dtype=object)
    return labels.astype(np.int64 if kind == "classification" else np.float64)


def _input_problems(values: Array, tensor: TensorSpec, rows: int | None) -> list[str]:
    name, shape = tensor.name, tensor.shape
    fits = (
        bool(shape)
        and values.ndim == len(shape)
        and all(wanted in (-1, size) for wanted, size in zip(shape[1:], values.shape[1:], strict=True))
        and (shape[0] in (-1, 0) or values.shape[0] % shape[0] == 0)
    )
    if not fits:
        return [f"`{name}` has shape {list(values.shape)}, the model takes {list(shape)}"]
    problems = []
    if rows is not None and values.shape[:1] != (rows,):
        problems.append(f"`{name}` has {values.shape[0] if values.ndim else 0} rows, the labels {rows}")
    wanted_type = _NUMPY_TYPES.get(tensor.datatype)
    is_text = values.dtype.kind in "SU"
    if (tensor.datatype == "BYTES") != is_text or not (is_text or _converts(values, wanted_type)):
        problems.append(f"`{name}` holds {values.dtype}, the model takes {tensor.datatype}")
    elif values.dtype.kind == "f" and not np.isfinite(values).all():
        problems.append(f"`{name}` holds values that are not finite")
    return problems


def _converts(values: Array, wanted: str | None) -> bool:
    # float64 to float32 is how training often leaves it; float to int would change the numbers.
    return wanted is not None and np.can_cast(values.dtype, np.dtype(wanted), casting="same_kind")


def _in_datatype(values: Array, tensor: TensorSpec) -> Array:
    if tensor.datatype == "BYTES":
        return np.asarray(
            [text.encode() if isinstance(text, str) else text for text in values.ravel().tolist()],
            dtype=object,
        ).reshape(values.shape)
    return np.ascontiguousarray(values, dtype=np.dtype(_NUMPY_TYPES[tensor.datatype]))


def _columns_in_words(signature: ModelSignature, optional: Collection[str]) -> str:
    return ", ".join(
        f"`{tensor.name}`: {tensor}{' (optional)' if tensor.name in optional else ''}"
        for tensor in signature.inputs
    )
