"""A NumPy archive (.npz) that others wrote, read by the shared rules: what is wrong with it is a `GoldenSetError`."""

from __future__ import annotations

import io
from typing import Any

from numpy.typing import NDArray

from slipway_core.errors import GoldenSetError
from slipway_rules.errors import RuleError
from slipway_rules.npz import SIZE_LIMIT_BYTES, read_npz


def read_arrays(content: bytes, name: str, *, limit_bytes: int = SIZE_LIMIT_BYTES) -> dict[str, NDArray[Any]]:
    """Return the arrays of a NumPy archive by name.

    :param name: what an error calls the archive.
    :param limit_bytes: for all arrays together, once inflated.
    :raises GoldenSetError: it is not an archive, is damaged or encrypted, holds Python objects, or is too large.
    """
    try:
        return read_npz(io.BytesIO(content), name, limit_bytes)
    except RuleError as error:
        raise GoldenSetError(error.what, **error.details) from error
