"""Which axis of each tensor counts the golden rows, and the one way to take rows.

An axis is a number (0: the rows come first, as in a batch), `request` (each row is a request of its own; the golden set
holds the tensors of all rows, rows first) or `none` (the same in every request). What `--row-axis` does not say follows
from the model's shapes. The release's own gates reckon in the same way; a test holds the two against each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from slipway_pod.models.batch_tensors import BatchTensors

Axis = int | str
Shape = Sequence[int]


def row_axis(text: str) -> tuple[str, Axis]:
    """Return an argument such as `state=1`, `image=request` or `rate=none`."""
    name, _, axis = text.rpartition("=")
    if name and axis in ("request", "none"):
        return name, axis
    if name and axis.isdigit() and int(axis) < 16:
        return name, int(axis)
    raise argparse.ArgumentTypeError(f"expected NAME=AXIS, an axis, `request` or `none`, found {text!r}")


def add_row_axis_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument that says how an input's golden rows lie; its default is none at all."""
    text = "which axis of an input or output counts rows: NAME=0, NAME=request, NAME=none; may be repeated"
    parser.add_argument(
        "--row-axis", action="append", type=row_axis, default=[], metavar="NAME=AXIS", help=text
    )


class GoldenRows(dict[str, Any]):
    """The golden set's array for each input, and how rows are taken from them.

    :ivar axes: by input, and by the outputs that were named.
    :ivar rows: how many there are.
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        axes: Mapping[str, Axis],
        rows: int,
        ranks: Mapping[str, int] | None = None,
        batch: BatchTensors | None = None,
    ) -> None:
        """Keep the arrays as they are; `ranks` are how many dimensions each input of a request has.

        :param batch: what Triton makes of a batch, where the model itself is asked as Triton would ask it.
        """
        super().__init__(columns)
        self.axes, self.rows, self.ranks, self.batch = dict(axes), rows, dict(ranks or {}), batch

    @property
    def one_by_one(self) -> bool:
        """Tell whether each row is a request of its own, without an axis for rows."""
        return any(self.axes.get(name) == "request" for name in self)

    def take(self, rows: Sequence[int]) -> dict[str, Any]:
        """Return the inputs of a request for these rows, as the model gets them."""
        sent = self._sent(rows)
        return sent if self.batch is None else self.batch.fed(sent)

    def answered(self, output: str, values: Any, rows: Sequence[int]) -> Any:
        """Return what a client gets that sends these rows, of what the model answered."""
        return values if self.batch is None else self.batch.answered(output, values, self._sent(rows))

    def _sent(self, rows: Sequence[int]) -> dict[str, Any]:
        taken = {name: take_rows(values, self.axes.get(name, 0), rows) for name, values in self.items()}
        # A model's single number is served as a tensor of one element.
        return {
            name: values.reshape((*values.shape, 1)) if values.ndim + 1 == self.ranks.get(name) else values
            for name, values in taken.items()
        }

    def first(self, rows: int) -> GoldenRows:
        """Return the set's first rows."""
        kept = range(min(rows, self.rows))
        columns = {
            name: values[: len(kept)]
            if self.axes.get(name) == "request"
            else take_rows(values, self.axes.get(name, 0), kept)
            for name, values in self.items()
        }
        return GoldenRows(columns, self.axes, len(kept), self.ranks, self.batch)


def count_rows(
    arrays: Mapping[str, Shape], models: Mapping[str, Shape], said: Mapping[str, Axis]
) -> int | None:
    """Return how many rows the inputs have; None where their shapes do not tell. Sizes that are free count first."""
    ways: list[tuple[str, Axis]] = [(name, axis) for name, axis in said.items() if name in arrays]
    ways += [(name, 0) for name in arrays if tuple(models[name][:1]) == (-1,)]
    ways += [(name, "request") for name in arrays]
    ways += [
        (name, axis) for name in arrays for axis in range(1, len(models[name])) if models[name][axis] == -1
    ]
    ways += [(name, 0) for name in arrays]
    for name, axis in ways:
        if axis == said.get(name, axis) and fits_axis(arrays[name], models[name], axis):
            rows = rows_along(arrays[name], axis)
            if rows:
                return rows
    return None


def row_axis_of(array: Shape, model: Shape, rows: int) -> Axis | None:
    """Return which axis of an input counts the rows, None where its shape does not tell; axis 0 comes first."""
    for axis in [axis for axis in range(len(model)) if axis == 0 or model[axis] == -1]:
        if fits_axis(array, model, axis) and array[axis] == rows:
            return axis
    if fits_axis(array, model, "request") and array[0] == rows:
        return "request"
    is_one_number = all(size == 1 for size in (*array, *model))
    return "none" if is_one_number and fits_axis(array, model, "none") else None


def fits_axis(array: Shape, model: Shape, axis: Axis) -> bool:
    """Tell whether an array of that shape holds rows along the axis for a model that takes `model`."""
    if axis == "none":
        return _fits(array, model)
    if axis == "request":
        return len(array) > 0 and _fits(array[1:], model)
    place = int(axis)
    if place >= len(model) or len(array) != len(model):
        return False
    others = [at for at in range(len(model)) if at != place]
    size = model[place]
    return _fits([array[at] for at in others], [model[at] for at in others]) and (
        size in (-1, 0) or array[place] % size == 0
    )


def rows_along(array: Shape, axis: Axis) -> int | None:
    """Return how many rows an array holds; None where it is the same in every request."""
    if axis == "none":
        return None
    return array[0] if axis == "request" else array[int(axis)]


def take_rows(values: Any, axis: Axis, rows: Sequence[int]) -> Any:
    """Return the part of an input that a request for these rows carries; of `request`, for one row alone."""
    import numpy as np

    if axis == "none":
        return values
    if axis == "request":
        (only,) = values[list(rows)]
        return np.asarray(only, dtype=values.dtype)
    return values[(*(slice(None),) * int(axis), list(rows))]


def rows_first(answer: Any, model: Shape, axis: Axis | None, *, rows: int, one_by_one: bool) -> Any:
    """Return an answer with its rows as the first axis; without `axis` it follows from the shapes."""
    import numpy as np

    if axis is None:
        axis = _output_axis(answer.shape, model, rows, one_by_one=one_by_one)
    if axis in ("request", "none"):
        return answer[np.newaxis]
    return np.moveaxis(answer, int(axis), 0) if answer.ndim > int(axis) else answer


def _output_axis(answer: Shape, model: Shape, rows: int, *, one_by_one: bool) -> Axis:
    if one_by_one:
        return 0 if tuple(model[:1]) == (1,) and len(model) > 1 and tuple(answer[:1]) == (1,) else "request"
    if tuple(answer[:1]) == (rows,) or not model or model[0] == -1:
        return 0
    free = (
        axis for axis in range(len(model)) if model[axis] == -1 and tuple(answer[axis : axis + 1]) == (rows,)
    )
    return next(free, 0)


def _fits(array: Shape, model: Shape) -> bool:
    """Tell whether sizes are those of the model; a served model has [1] where its file has no dimension at all."""
    same = len(array) == len(model) and all(
        wanted in (-1, size) for wanted, size in zip(model, array, strict=True)
    )
    return same or (len(array) + 1 == len(model) and model[-1] == 1 and _fits(array, model[:-1]))
