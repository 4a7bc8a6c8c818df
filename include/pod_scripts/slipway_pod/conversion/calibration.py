"""Calibration rows for TensorRT's builder, which is another program: it reads this file as its data loader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

# Environment variables: the path of the rows (a NumPy archive), and the number of rows of a batch.
ROWS_FILE = "SLIPWAY_CALIBRATION_FILE"
BATCH_ROWS = "SLIPWAY_CALIBRATION_BATCH"


def calibration_batches() -> Iterator[dict[str, Any]]:
    """Return the rows in batches, whole ones only, by input."""
    import numpy as np

    size = int(os.environ[BATCH_ROWS])
    with np.load(os.environ[ROWS_FILE], allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    rows = min(len(array) for array in arrays.values())
    for start in range(0, rows - size + 1, size):
        yield {name: np.ascontiguousarray(array[start : start + size]) for name, array in arrays.items()}
