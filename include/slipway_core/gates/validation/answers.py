"""The answers that a version gave when it was released, kept as evidence: a NumPy archive without Python objects."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.gates.validation.scores import Array

ANSWERS_FILE = "answers.npz"
ANSWERS_LIMIT_BYTES = 64 * 1024 * 1024
_ANSWERS, _OUTPUT = "answers", "output."


def pack_answers(answers: Array, rows: int, others: Mapping[str, Array] | None = None) -> bytes | None:
    """Return the answers to the first rows of the golden set as a file; None if they are larger than is kept.

    :param answers: a row for each golden row; texts are bytes objects, or None if the model answered nothing.
    :param others: the same in the outputs that are not scored; those that are too large besides are left out.
    """
    kept = _as_kept(answers[:rows])
    if kept.nbytes > ANSWERS_LIMIT_BYTES:
        return None
    arrays, left = {_ANSWERS: kept}, ANSWERS_LIMIT_BYTES - kept.nbytes
    for name, values in sorted((others or {}).items()):
        other = _as_kept(values[:rows])
        if other.nbytes <= left and "/" not in name:
            arrays[f"{_OUTPUT}{name}"] = other
            left -= other.nbytes
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type, unused-ignore]
    return buffer.getvalue()


def _as_kept(values: Array) -> Array:
    if values.dtype.kind != "O":
        return values
    return np.asarray([one if one is not None else b"" for one in values.reshape(-1)]).reshape(values.shape)


@dataclass(frozen=True)
class KeptAnswers:
    """What a version answered when it was released, a row for each golden row; `others` in what is not scored."""

    answers: Array
    others: Mapping[str, Array]


def unpack_answers(content: bytes, name: str) -> KeptAnswers:
    """Return the answers in a file.

    :param name: what an error calls it.
    :raises GoldenSetError: it holds something else.
    """
    arrays = read_arrays(content, name, limit_bytes=ANSWERS_LIMIT_BYTES)
    others = {one: array for one, array in arrays.items() if one.startswith(_OUTPUT)}
    if arrays.keys() - others.keys() != {_ANSWERS} or not all(array.ndim for array in arrays.values()):
        raise GoldenSetError(
            f"{name} holds no kept answers",
            expected=f"an array `{_ANSWERS}`, and such as `{_OUTPUT}NAME`, with a row for each golden row",
            found=", ".join(sorted(arrays)) or "nothing",
            remedy="find out who wrote it; release the model again to have answers kept",
        )
    return KeptAnswers(
        _as_texts(arrays[_ANSWERS]),
        {one.removeprefix(_OUTPUT): _as_texts(array) for one, array in others.items()},
    )


def _as_texts(values: Array) -> Array:
    return values.astype(object) if values.dtype.kind == "S" else values
