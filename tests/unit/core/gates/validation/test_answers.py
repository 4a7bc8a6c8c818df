"""Answers that are kept as evidence come back as they were, and what else lies there is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation import answers
from slipway_core.gates.validation.answers import pack_answers, unpack_answers


@pytest.mark.parametrize(
    "given",
    [
        np.arange(12, dtype=np.float32).reshape(4, 3),
        np.array([[b"It is four."], [b"six"], [b""]], dtype=object),
        np.array([b"a text", None], dtype=object),
        np.arange(3, dtype=np.int64),
    ],
    ids=["scores", "texts", "no answer", "classes"],
)
def test_answers_come_back(given: np.ndarray) -> None:
    """Numbers keep type and shape, texts are bytes again; no answer is an empty text."""
    kept = unpack_answers(pack_answers(given, 1000) or b"", "answers.npz").answers
    expected = np.array([one if one is not None else b"" for one in given.reshape(-1).tolist()], given.dtype)
    assert (kept.dtype, kept.shape) == (given.dtype, given.shape)
    assert kept.reshape(-1).tolist() == expected.tolist()


def test_only_the_first_rows_are_kept_and_nothing_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large model's answers may have no reference; that is said where they are compared."""
    given = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert unpack_answers(pack_answers(given, 2) or b"", "a").answers.tolist() == given[:2].tolist()
    monkeypatch.setattr(answers, "ANSWERS_LIMIT_BYTES", 47)
    assert pack_answers(given, 1000) is None


def test_what_is_no_answers_is_refused() -> None:
    """Another archive, and no archive."""
    buffer = io.BytesIO()
    np.savez(buffer, inputs=np.zeros(2))
    for content in (buffer.getvalue(), b"hostile"):
        with pytest.raises(GoldenSetError):
            unpack_answers(content, "answers.npz")


def test_the_other_outputs_are_kept_beside_them() -> None:
    """By their names, texts as texts, and those that are too large are left out."""
    texts = np.asarray([b"one", None, b"two"], dtype=object)
    whole = {"digit": np.arange(3), "name": texts}
    found = unpack_answers(pack_answers(np.eye(3), 2, whole) or b"", "answers.npz")
    assert found.others["digit"].tolist() == [0, 1]
    assert found.others["name"].tolist() == [b"one", b""]
    assert found.answers.shape == (2, 3)
