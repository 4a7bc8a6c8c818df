"""The answers of a model to the golden set, batch by batch."""

from __future__ import annotations

from typing import Any

from slipway_pod.errors import PodError, first_line
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Signature
from slipway_rules.row_axes import rows_first

BATCH_ROWS = 64


def answer_all(session: Any, signature: Signature, golden: GoldenRows, name: str) -> dict[str, Any]:
    """Return the model's outputs over all golden rows, batch by batch, rows first.

    :raises PodError: of kind ModelInvalidError.
    """
    import numpy as np

    rows = golden.rows
    fixed = rows_of_a_request(signature, golden)
    size = fixed or min(BATCH_ROWS, rows)
    shapes = {tensor.name: tensor.shape for tensor in signature.outputs}
    names = [tensor.name for tensor in signature.outputs]
    parts: dict[str, list[Any]] = {output: [] for output in names}
    for start in range(0, rows, size):
        # The last batch is filled up with its last row where the model fixes the batch size.
        wanted = min(size, rows - start)
        taken = np.minimum(np.arange(start, start + (size if fixed else wanted)), rows - 1)
        chosen = taken.tolist()
        feeds = {column: as_fed(array) for column, array in golden.take(chosen).items()}
        try:
            values = session.run(names, feeds)
        except Exception as error:
            raise rows_error(f"{name}, golden rows from {start}", error) from error
        for output, value in zip(names, values, strict=True):
            value = golden.answered(output, value, chosen)
            first = rows_first(
                value, shapes[output], golden.axes.get(output), rows=len(taken), one_by_one=golden.one_by_one
            )
            require_batch(output, first, len(taken))
            parts[output].append(first[:wanted])
    return {output: np.concatenate(arrays) for output, arrays in parts.items()}


def rows_of_a_request(signature: Signature, golden: GoldenRows) -> int:
    """Return how many rows a request must have, 0 for any number."""
    if golden.one_by_one or golden.batch is not None:
        return 1
    for tensor in signature.inputs:
        axis = golden.axes.get(tensor.name, 0)
        known = tensor.name in golden and isinstance(axis, int) and axis < len(tensor.shape)
        if known and tensor.shape[int(axis)] > 0:
            return tensor.shape[int(axis)]
    return 0


def as_fed(array: Any) -> Any:
    """Return an array as ONNX Runtime takes it: strings as objects, numbers as they are."""
    return array.astype(str).astype(object) if array.dtype.kind in "SU" else array


def rows_error(where: str, error: Exception) -> PodError:
    """Return the error for a model that fails on golden rows."""
    what = f"The model fails on the golden set ({where})"
    remedy = "correct the model, or the golden set if those rows are not valid inputs"
    return PodError("ModelInvalidError", what, found=first_line(error), remedy=remedy)


def require_batch(output: str, value: Any, rows: int) -> None:
    """Raise PodError (ModelInvalidError) unless an output has one row for each input row."""
    shape = getattr(value, "shape", ())
    if shape[:1] != (rows,):
        what = f"Output {output!r} does not have one row for each of {rows} input rows"
        remedy = (
            "export the model with the batch as the first dimension of every input and output, or say under "
            f"golden.row_axis.{output} in the release file which axis counts the rows"
        )
        raise PodError("ModelInvalidError", what, found=f"shape {list(shape)}", remedy=remedy)
