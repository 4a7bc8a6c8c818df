"""The answers that a version gave when it was released, kept as evidence: a NumPy archive without Python objects."""

from __future__ import annotations

import io

import numpy as np

from include.model_release.errors import GoldenSetError
from include.model_release.gates.validation.npz import read_arrays
from include.model_release.gates.validation.scores import Array

ANSWERS_FILE = "answers.npz"
ANSWERS_LIMIT_BYTES = 64 * 1024 * 1024
_ANSWERS = "answers"  # as the keyword below


def pack_answers(answers: Array, rows: int) -> bytes | None:
    """Return the answers to the first rows of the golden set as a file; None where they are larger than is kept.

    :param answers: a row for each golden row; texts are bytes objects, or None where the model answered nothing.
    """
    kept = answers[:rows]
    if kept.dtype.kind == "O":
        kept = np.asarray([one if one is not None else b"" for one in kept.reshape(-1)]).reshape(kept.shape)
    if kept.nbytes > ANSWERS_LIMIT_BYTES:
        return None
    buffer = io.BytesIO()
    np.savez_compressed(buffer, answers=kept)
    return buffer.getvalue()


def unpack_answers(content: bytes, name: str) -> Array:
    """Return the answers in a file.

    :param name: what an error calls it.
    :raises GoldenSetError: it holds something else.
    """
    arrays = read_arrays(content, name, limit_bytes=ANSWERS_LIMIT_BYTES)
    if arrays.keys() != {_ANSWERS} or not arrays[_ANSWERS].ndim:
        raise GoldenSetError(
            f"{name} holds no kept answers",
            expected=f"one array `{_ANSWERS}` with a row for each golden row",
            found=", ".join(sorted(arrays)) or "nothing",
            remedy="find out who wrote it; release the model again to have answers kept",
        )
    answers = arrays[_ANSWERS]
    return answers.astype(object) if answers.dtype.kind == "S" else answers
