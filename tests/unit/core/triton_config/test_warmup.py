"""Warm-up requests made of golden rows, zeros and random numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from slipway_core.errors import GoldenSetError, ModelInvalidError, SlipwayError
from slipway_core.spec.serving.serving import WarmupSample
from slipway_core.triton_config.warmup import make_warmup, needs_golden

_CONFIG: dict[str, Any] = {
    "max_batch_size": 8,
    "input": [
        {"name": "x", "data_type": "TYPE_FP32", "dims": [-1]},
        {"name": "word", "data_type": "TYPE_STRING", "dims": [1], "reshape": {"shape": []}},
    ],
}
_GOLDEN = {"x": np.array([[1, 2], [3, 4]], dtype=">f4"), "word": np.array(["eins", "zwölf"])}


def _sample(**fields: Any) -> WarmupSample:
    return WarmupSample.model_validate_json(json.dumps({"name": "w", **fields}))


def test_a_golden_row_becomes_files() -> None:
    """One row each, little-endian; a text after its length in bytes."""
    made = make_warmup([_sample(row=1, batch_size=4, count=2)], _CONFIG, _GOLDEN)
    assert made.files == {
        "warmup/w.1.bin": np.array([3, 4], dtype="<f4").tobytes(),
        "warmup/w.0.bin": b"\x06\x00\x00\x00zw\xc3\xb6lf",
    }
    assert made.entries == (
        {
            "name": "w",
            "batch_size": 4,
            "inputs": {
                "word": {"data_type": "TYPE_STRING", "dims": [1], "input_data_file": "w.0.bin"},
                "x": {"data_type": "TYPE_FP32", "dims": [2], "input_data_file": "w.1.bin"},
            },
            "count": 2,
        },
    )


def test_made_up_data_needs_no_golden_set() -> None:
    """Zeros and random numbers are made by Triton, in the sizes that the release file gives."""
    samples = [_sample(data="zero", inputs={"word": "random"}, shapes={"x": [3]})]
    assert not needs_golden(samples)
    made = make_warmup(samples, _CONFIG, {})
    assert made.files == {}
    assert made.entries[0]["inputs"] == {
        "word": {"data_type": "TYPE_STRING", "dims": [1], "random_data": True},
        "x": {"data_type": "TYPE_FP32", "dims": [3], "zero_data": True},
    }


def test_without_a_batch_dimension_the_rows_are_the_first_size() -> None:
    """A model that takes whole shapes is fed so many rows as its first size is."""
    config = {"input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [2, 2]}]}
    made = make_warmup([_sample()], config, _GOLDEN)
    assert made.entries[0]["inputs"]["x"]["dims"] == [2, 2]
    assert made.files == {"warmup/w.0.bin": np.array([[1, 2], [3, 4]], dtype="<f4").tobytes()}


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"inputs": {"wrod": "zero"}}, ModelInvalidError, r"inputs\.wrod.*Did you mean `word`"),
        ({"shapes": {"z": [1]}}, ModelInvalidError, r"shapes\.z"),
        ({"data": "zero"}, ModelInvalidError, r"size of the input `x` is not known"),
        ({"data": "zero", "shapes": {"x": [1, 2]}}, ModelInvalidError, r"does not fit"),
        ({"row": 2}, GoldenSetError, r"no row 2"),
    ],
)
def test_what_cannot_be_warmed_up(fields: dict[str, Any], kind: type[SlipwayError], words: str) -> None:
    """Unknown inputs, unknown sizes and missing rows are told with the sample's name."""
    with pytest.raises(kind, match=words):
        make_warmup([_sample(**fields)], _CONFIG, _GOLDEN)


def test_a_missing_column_is_told() -> None:
    """The golden set must have a column for each input that is to be golden."""
    with pytest.raises(GoldenSetError, match="no column for the input `word`"):
        make_warmup([_sample()], _CONFIG, {"x": _GOLDEN["x"]})
