"""The answers of a model to the golden set, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_pod.errors import PodError, first_line
from slipway_pod.models.tensors import Signature, fixed_batch

BATCH_ROWS = 64


def answer_all(session: Any, signature: Signature, golden: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the model's outputs over all golden rows, batch by batch.

    :raises PodError: of kind ModelInvalidError.
    """
    import numpy as np

    rows = len(next(iter(golden.values())))
    fixed = fixed_batch(signature)
    size = fixed or min(BATCH_ROWS, rows)
    names = [tensor.name for tensor in signature.outputs]
    parts: dict[str, list[Any]] = {output: [] for output in names}
    for start in range(0, rows, size):
        # The last batch is filled up with its last row where the model fixes the batch size.
        wanted = min(size, rows - start)
        taken = np.minimum(np.arange(start, start + (size if fixed else wanted)), rows - 1)
        feeds = {column: as_fed(array[taken]) for column, array in golden.items()}
        try:
            values = session.run(names, feeds)
        except Exception as error:
            raise rows_error(f"{name}, golden rows from {start}", error) from error
        for output, value in zip(names, values, strict=True):
            require_batch(output, value, len(taken))
            parts[output].append(value[:wanted])
    return {output: np.concatenate(arrays) for output, arrays in parts.items()}


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
        remedy = "export the model with the batch as the first dimension of every input and output"
        raise PodError("ModelInvalidError", what, found=f"shape {list(shape)}", remedy=remedy)
