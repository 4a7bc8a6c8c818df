"""The golden set's rows as requests, and the argument that says which axis of a tensor counts them.

What `--row-axis` does not say follows from the model's shapes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from slipway_pod.models.batch_tensors import BatchTensors
from slipway_rules.row_axes import LAST_AXIS, RowAxis, take_rows

_WORDS: dict[str, RowAxis] = {"request": "request", "none": "none"}


def row_axis(text: str) -> tuple[str, RowAxis]:
    """Return an argument such as `state=1`, `image=request` or `rate=none`."""
    name, _, axis = text.rpartition("=")
    if name and axis in _WORDS:
        return name, _WORDS[axis]
    if name and axis.isdigit() and int(axis) <= LAST_AXIS:
        return name, int(axis)
    raise argparse.ArgumentTypeError(f"expected NAME=AXIS, an axis, `request` or `none`, found {text!r}")


def add_row_axis_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument that says how an input's golden rows lie; it has no default."""
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
        axes: Mapping[str, RowAxis],
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
        """Return whether each row is a request of its own, without an axis for rows."""
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
