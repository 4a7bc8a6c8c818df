"""The fleet's model, and what is wrong with it where a repository is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from benchmarks.fleet.model import MADE_BY, STRANGER, config_of, requests, rewrite_wrong, trained, version_of
from benchmarks.fleet.plan import WRONG_CONFIGS


def made_by(content: bytes) -> list[int]:
    """Return which version each answer to the clients' requests says that it is of."""
    session = onnxruntime.InferenceSession(content)
    rows = requests().rows[:, 0]
    [said] = session.run([MADE_BY], {"pixels": rows})
    return sorted(set(np.asarray(said).ravel().tolist()))


def test_each_version_says_which_it_is() -> None:
    """The number is in the answer, for each row, and versions have the same size."""
    model = trained()
    assert made_by(version_of(model, 7)) == [7]
    assert made_by(version_of(model, 123)) == [123]
    assert len(version_of(model, 7)) == len(version_of(model, 123))


def test_another_model_has_the_same_size_and_is_a_stranger() -> None:
    """So that a server that answers with it is found by its answers alone."""
    right = version_of(trained(), 7)
    wrong = rewrite_wrong("another model", "/b/digits_v7/7/model.onnx", right)
    assert len(wrong) == len(right)
    assert made_by(wrong) == [7 + STRANGER]


def test_a_model_that_cannot_be_loaded_cannot() -> None:
    """It has the size of the right one."""
    right = version_of(trained(), 7)
    wrong = rewrite_wrong("cannot be loaded", "/b/digits_v7/7/model.onnx", right)
    assert len(wrong) == len(right)
    with pytest.raises(Exception, match=r"(?i)protobuf|load|invalid"):
        onnxruntime.InferenceSession(wrong)


@pytest.mark.parametrize("wrong", WRONG_CONFIGS)
def test_a_wrong_configuration_has_the_size_of_the_right_one(wrong: str) -> None:
    """An object of another size than it was listed with would be another fault."""
    right = config_of(7)
    assert len(rewrite_wrong(wrong, str(Path("b") / "config.pbtxt"), right)) == len(right)
    assert rewrite_wrong(wrong, "/b/other.json", right) == right
