"""The request that all servers of a fleet must answer alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class GoldenRequest:
    """One request.

    :param inputs: an array for each input, batch dimension first.
    :param outputs: names of the outputs that are compared.
    :param relative: how far two servers' numbers may lie apart, as a share of the first one's.
    :param absolute: how far they may lie apart beside that.
    """

    inputs: Arrays
    outputs: tuple[str, ...]
    relative: float = 1e-5
    absolute: float = 1e-6


def answers_differ(request: GoldenRequest, first: Arrays, other: Arrays) -> str:
    """Return where an answer differs from the first server's; empty if they are alike."""
    for name in request.outputs:
        one, two = first.get(name), other.get(name)
        if one is None or two is None:
            return f"no output {name!r}"
        if one.shape != two.shape or one.dtype != two.dtype:
            return f"{name!r} is {two.dtype} of {list(two.shape)}, not {one.dtype} of {list(one.shape)}"
        if not _alike(request, one, two):
            return f"{name!r} has other values"
    return ""


def _alike(request: GoldenRequest, one: np.ndarray, two: np.ndarray) -> bool:
    if not np.issubdtype(one.dtype, np.inexact):
        return bool(np.array_equal(one, two))
    return bool(np.allclose(two, one, rtol=request.relative, atol=request.absolute, equal_nan=True))
