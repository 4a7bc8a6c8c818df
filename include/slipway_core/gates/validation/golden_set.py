"""The golden set: inputs with known answers, as training leaves them in golden.npz."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.golden_labels import CLASS_LABELS, Array, LabelRules, slice_problems
from slipway_core.row_axes import RowAxes
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_rules.row_axes import (
    RowAxis,
    count_rows,
    fits_axis,
    row_axis_of,
    rows_along,
    rows_first,
    take_rows,
)
from slipway_rules.tensors import NUMPY_TYPES


@dataclass(frozen=True)
class GoldenSet:
    """Inputs with known answers.

    `inputs` by name, in the model's datatype, optional ones only where the set has them; which axis of each counts the
    rows `axes` says, 0 for one that it does not name. `labels` have the rows first; they are empty if there are
    none, and then `unlabelled_rows` says how many rows there are. `groups` tells rows that belong to one question.
    `shapes` are those of the model's tensors, `slices` say by name to which part of the data a row belongs.
    """

    inputs: dict[str, Array]
    labels: Array
    axes: RowAxes = field(default_factory=RowAxes)
    unlabelled_rows: int | None = None
    groups: Array | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    slices: Mapping[str, Array] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return how many examples there are."""
        return self.unlabelled_rows if self.unlabelled_rows is not None else int(self.labels.shape[0])

    @property
    def has_labels(self) -> bool:
        """Return whether the right answers are known."""
        return self.unlabelled_rows is None

    @property
    def request_rows(self) -> int | None:
        """Return how many rows a request must have; None: any number."""
        return self.axes.request_rows

    def take(self, rows: slice | Sequence[int]) -> dict[str, Array]:
        """Return the inputs of a request for these rows."""
        taken = {
            name: take_rows(values, self.axes.inputs.get(name, 0), rows)
            for name, values in self.inputs.items()
        }
        return {name: _as_served(values, self.shapes.get(name)) for name, values in taken.items()}

    def batches(self, size: int) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Yield the rows' slice and the inputs, `size` rows at a time; the last batch may be smaller."""
        step = self.request_rows or size
        for start in range(0, self.rows, step):
            rows = slice(start, min(start + step, self.rows))
            yield rows, self.take(rows)

    def rows_first(self, output: str, answer: Array, rows: int) -> Array:
        """Return what a request of so many rows was answered with, its rows as the first axis."""
        return rows_first(
            answer,
            self.shapes.get(output, (-1,)),
            self.axes.outputs.get(output),
            rows=rows,
            one_by_one=self.axes.one_by_one,
        )

    def columns(self) -> dict[str, Array]:
        """Return the inputs that differ from row to row, rows first."""
        axes = {name: self.axes.inputs.get(name, 0) for name in self.inputs}
        return {
            name: values if axes[name] == "request" else np.moveaxis(values, int(axes[name]), 0)
            for name, values in self.inputs.items()
            if axes[name] != "none"
        }

    def first(self, rows: int) -> GoldenSet:
        """Return the first rows: whole requests, where the model takes requests of one size alone."""
        step = self.request_rows or 1
        kept = min(max(step, rows - rows % step), self.rows)
        return GoldenSet(
            {
                name: values
                if self.axes.inputs.get(name, 0) == "none"
                else values[:kept]
                if self.axes.inputs.get(name, 0) == "request"
                else take_rows(values, self.axes.inputs.get(name, 0), slice(0, kept))
                for name, values in self.inputs.items()
            },
            self.labels[:kept],
            self.axes,
            None if self.has_labels else kept,
            None if self.groups is None else self.groups[:kept],
            self.shapes,
            {name: values[:kept] for name, values in self.slices.items()},
        )


def golden_from_arrays(
    arrays: Mapping[str, Array],
    signature: ModelSignature,
    label: str,
    *,
    labelled: LabelRules = CLASS_LABELS,
    optional: Collection[str] = (),
    row_axis: Mapping[str, RowAxis] | None = None,
    group: str | None = None,
    slices: Sequence[str] = (),
    row_by_row: bool = False,
) -> GoldenSet:
    """Check the arrays of a golden set against the model's inputs and put them into its datatypes.

    :param labelled: what the labels are.
    :param optional: inputs that a request may leave out: the golden set need not have them.
    :param row_axis: `golden.row_axis` of the release file; what it leaves out follows from the shapes.
    :param group: the array that says which rows belong to one question.
    :param slices: the arrays that say to which part of the data a row belongs.
    :param row_by_row: each row is a request, whatever the shapes say.
    :raises GoldenSetError: names every column that is missing, unknown or of the wrong shape or type.
    """
    wanted = {tensor.name: tensor for tensor in signature.inputs}
    arrays = {name: _as_column(values, wanted.get(name)) for name, values in arrays.items()}
    said, other_arrays = dict(row_axis or {}), {label, *([group] if group else []), *slices}
    needed = (
        {*wanted, *other_arrays} - (set(optional) - other_arrays) - ({label} if labelled.optional else set())
    )
    problems = [f"`{name}` is missing" for name in sorted(needed - arrays.keys())]
    problems += [
        f"`{name}` is not an input of the model" for name in sorted(arrays.keys() - {*wanted, *other_arrays})
    ]
    known = {*wanted, *(tensor.name for tensor in signature.outputs)}
    problems += [
        f"`golden.row_axis.{name}` is not a tensor of the model" for name in sorted(said.keys() - known)
    ]
    labels = arrays.get(label)
    if labels is not None:
        problems += labelled.problems(label, labels)
    given = {name: wanted[name] for name in sorted(wanted.keys() & arrays.keys())}
    rows = labels.shape[0] if labels is not None and labels.ndim else None
    if rows is None:
        rows = count_rows(
            {name: arrays[name].shape for name in given},
            {name: one.shape for name, one in given.items()},
            said,
        )
    axes: dict[str, RowAxis] = {}
    for name, tensor in given.items():
        axis = said.get(name)
        axis = row_axis_of(arrays[name].shape, tensor.shape, rows or 0) if axis is None else axis
        problems += _input_problems(arrays[name], tensor, rows, axis)
        axes[name] = 0 if axis is None else axis
    sizes = _request_sizes(given, axes) | ({1} if row_by_row else set())
    if len(sizes) > 1:
        problems.append(f"inputs with different first sizes ({sorted(sizes)}) have no rows in common")
    if group and group in arrays and arrays[group].shape != (rows,):
        problems.append(f"`{group}` has shape {list(arrays[group].shape)}, not [rows]")
    problems += slice_problems({name: arrays[name] for name in slices if name in arrays}, rows)
    if rows is None and not problems:
        problems.append("no array says how many rows there are")
    if rows is None or problems or (labels is None and not labelled.optional):
        raise GoldenSetError(
            "the golden set does not fit the model",
            expected=f"{_columns_in_words(signature, optional)}, and `{label}`: {labelled.in_words()}",
            found="; ".join(problems),
            remedy="Write the golden set again with one array per input and one with the labels, rows first; or say "
            "under `golden.row_axis` in the release file which axis of an input counts the rows.",
        )
    outputs = {one.name: said[one.name] for one in signature.outputs if one.name in said}
    return GoldenSet(
        {name: _in_datatype(arrays[name], tensor) for name, tensor in given.items()},
        np.zeros(0) if labels is None else labelled.in_type(labels),
        RowAxes(axes, outputs, frozenset(axes.keys() - said.keys()), next(iter(sizes), None)),
        rows if labels is None else None,
        arrays[group] if group else None,
        {one.name: one.shape for one in (*signature.inputs, *signature.outputs)},
        {name: arrays[name] for name in slices},
    )


def _as_column(values: Array, tensor: TensorSpec | None) -> Array:
    """Return [rows] as [rows, 1] where the server takes that: Triton has no batches of tensors without a dimension.

    A model's own [rows] is served with one dimension more.
    """
    is_column = tensor is not None and len(tensor.shape) == 2 and tensor.shape[1] == 1
    return values[:, np.newaxis] if is_column and values.ndim == 1 else values


def _request_sizes(given: Mapping[str, TensorSpec], axes: Mapping[str, RowAxis]) -> set[int]:
    """Return how many rows a request must have by each input that fixes it."""
    sizes = {1 for axis in axes.values() if axis == "request"}
    for name, tensor in given.items():
        axis = axes[name]
        if isinstance(axis, int) and axis < len(tensor.shape) and tensor.shape[axis] > 0:
            sizes.add(tensor.shape[axis])
    return sizes


def _input_problems(values: Array, tensor: TensorSpec, rows: int | None, axis: RowAxis | None) -> list[str]:
    name, shape = tensor.name, tensor.shape
    if not fits_axis(values.shape, shape, 0 if axis is None else axis):
        return [f"`{name}` has shape {list(values.shape)}, the model takes {list(shape)}"]
    problems = []
    found = rows_along(values.shape, 0 if axis is None else axis)
    if rows is not None and found is not None and found != rows:
        problems.append(f"`{name}` has {found} rows, the labels {rows}")
    wanted_type = NUMPY_TYPES.get(tensor.datatype)
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
    return np.asarray(values, dtype=np.dtype(NUMPY_TYPES[tensor.datatype]), order="C")


def _as_served(values: Array, shape: tuple[int, ...] | None) -> Array:
    """Return values in the served shape: a server has [1] where the model's file has no dimension."""
    if shape is not None and values.ndim + 1 == len(shape) and shape[-1] == 1:
        return values[..., np.newaxis]
    return values if values.dtype == object else np.ascontiguousarray(values).reshape(values.shape)


def _columns_in_words(signature: ModelSignature, optional: Collection[str]) -> str:
    return ", ".join(
        f"`{tensor.name}`: {tensor}{' (optional)' if tensor.name in optional else ''}"
        for tensor in signature.inputs
    )
