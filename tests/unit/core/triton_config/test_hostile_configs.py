"""config.pbtxt that nobody should write: every one is a ModelInvalidError, and a quick one."""

from __future__ import annotations

import time

import pytest

from slipway_core.errors import ModelInvalidError
from slipway_core.spec.release_file import Serving
from slipway_core.tensors import ModelSignature
from slipway_core.triton_config.build import build_model_config, served_signature
from slipway_core.triton_config.departures import departures_of
from slipway_core.triton_config.ensemble import departures
from slipway_core.triton_config.pbtxt import SIZE_LIMIT, from_pbtxt

SIGNATURE = ModelSignature.model_validate(
    {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
    }
)
TENSORS = """
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""


@pytest.mark.parametrize(
    "content",
    [
        b'name: "\xff\xfe"',
        b"\xff",
        b"max_batch_size: 99999999999999999999",
        b"max_batch_size: " + b"9" * 5000,
        b"input { dims: 18446744073709551616 }",
        b"max_batch_size: nan",
        b"x" * (SIZE_LIMIT + 1),
        b"instance_group { } " * 1001,
        b"input { " * 2000,
    ],
)
def test_a_text_that_cannot_be_read_is_refused(content: bytes) -> None:
    """Bytes that are no UTF-8, numbers out of range, and what is too long or too deep: one kind of error."""
    with pytest.raises(ModelInvalidError, match=r"config\.pbtxt cannot be read"):
        from_pbtxt(content)


def test_a_comment_may_be_in_any_encoding() -> None:
    """Triton's parser skips comments whatever their bytes are; a name must be UTF-8, and the error is text."""
    assert from_pbtxt(b'# gr\xfc\xdfe\nname: "ranker" # \xff\n') == {"name": "ranker"}
    with pytest.raises(ModelInvalidError, match=r"config\.pbtxt cannot be read") as refused:
        from_pbtxt(b'name: "gr\xfc\xdfe"')
    str(refused.value).encode()


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ('output { name: "y" data_type: TYPE_FP32 dims: 2 }', r"output\[1\]\.name"),
        ('input { name: "x" data_type: TYPE_FP32 dims: 4 }', r"input\[1\]\.name"),
        ("output { data_type: TYPE_FP32 dims: 2 }", r"output\[1\]\.name"),
        ("input { }", r"input\[1\]\.name"),
        ("sequence_batching { state { } }", r"sequence_batching\.state\[0\]\.input_name"),
        ('sequence_batching { state { input_name: "i" } }', r"sequence_batching\.state\[0\]\.output_name"),
        ("sequence_batching { control_input { } }", r"sequence_batching\.control_input\[0\]\.name"),
        ('output { name: "z" data_type: TYPE_FP32 dims: -9 }', r"output\[1\]\.dims"),
    ],
)
def test_what_nobody_could_address_is_refused_with_its_field(more: str, field: str) -> None:
    """Tensors and states without a name, and two of one name, are found before anything is built on them."""
    config = from_pbtxt(TENSORS + more)
    with pytest.raises(ModelInvalidError, match=field):
        build_model_config("m", Serving(), SIGNATURE, 3, base=config)


@pytest.mark.parametrize(
    "output",
    [
        'name: "y" dims: 2',
        'name: "y" data_type: TYPE_FP32',
        "data_type: TYPE_FP32 dims: 2",
        'name: "y" data_type: 0',
        'name: "y" data_type: TYPE_FP32 dims: [4, -2]',
        'name: "y" data_type: TYPE_FP32 dims: -9223372036854775808',
    ],
)
def test_a_tensor_without_name_type_or_possible_sizes_has_no_signature(output: str) -> None:
    """What a server would tell clients of it is not known."""
    with pytest.raises(ModelInvalidError):
        served_signature(from_pbtxt(f"output {{ {output} }}"))


def test_many_contradictions_are_counted_and_not_all_told() -> None:
    """An error about hundreds of tensors stays one that a person can read, and is there at once."""
    names = "".join(
        f'input {{ name: "input_{number}" data_type: TYPE_FP32 dims: 4 }}\n' for number in range(900)
    )
    began = time.process_time()
    with pytest.raises(ModelInvalidError, match=r"and [0-9]+ more") as raised:
        build_model_config("m", Serving(), SIGNATURE, 3, base=from_pbtxt(TENSORS + names))
    assert len(str(raised.value)) < 6000
    assert time.process_time() - began < 10


def test_equal_sets_are_not_held_each_against_each() -> None:
    """A thousand equal groups depart from themselves in nothing, and that is seen at once."""
    config = from_pbtxt('name: "m" ' + "instance_group { kind: KIND_CPU count: 1 } " * 1000)
    began = time.process_time()
    assert departures(config, config) == []
    assert list(departures_of({"instance_group": []}, {"instance_group": []}, {})) == []
    assert time.process_time() - began < 1
