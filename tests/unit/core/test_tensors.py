"""Signatures: read from a server's metadata, compared in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import ModelInvalidError
from slipway_core.tensors import (
    DATATYPES,
    ModelSignature,
    TensorSpec,
    differences,
    signature_from_metadata,
)

_TENSORS = st.builds(
    TensorSpec,
    name=st.text(min_size=1, max_size=5),
    datatype=st.sampled_from(DATATYPES),
    shape=st.lists(st.integers(-1, 300), max_size=4).map(tuple),
)
_LISTS = st.lists(_TENSORS, max_size=4, unique_by=lambda tensor: tensor.name).map(tuple)
_SIGNATURES = st.builds(ModelSignature, inputs=_LISTS, outputs=_LISTS)

_METADATA: dict[str, Any] = {
    "name": "digits",
    "versions": ["2"],
    "platform": "onnxruntime_onnx",
    "inputs": [{"name": "pixels", "datatype": "FP32", "shape": [-1, 64]}],
    "outputs": [{"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]}],
}


def test_metadata_of_both_protocols_reads_alike() -> None:
    """Sizes as numbers (HTTP) and as text (gRPC's JSON) give the same signature."""
    over_grpc = {**_METADATA, "inputs": [{"name": "pixels", "datatype": "FP32", "shape": ["-1", "64"]}]}
    assert signature_from_metadata(_METADATA) == signature_from_metadata(over_grpc)


@given(_SIGNATURES)
def test_a_signature_equals_itself_after_metadata(signature: ModelSignature) -> None:
    """Written as metadata and read again, a signature is the same and has no differences."""
    again = signature_from_metadata(signature.model_dump(mode="json"))
    assert again == signature
    assert differences(signature, again) == []


@given(_SIGNATURES, _SIGNATURES)
def test_signatures_are_equal_exactly_when_there_is_nothing_to_say(
    one: ModelSignature, other: ModelSignature
) -> None:
    """There are differences if and only if the signatures differ, as many one way as the other."""
    assert (differences(one, other) == []) == (one == other)
    assert len(differences(one, other)) == len(differences(other, one))


@given(_LISTS)
def test_order_means_nothing(tensors: tuple[TensorSpec, ...]) -> None:
    """Clients address tensors by name, so two orders of the same tensors are one signature."""
    backwards = ModelSignature(inputs=tuple(reversed(tensors)), outputs=())
    assert ModelSignature(inputs=tensors, outputs=()) == backwards


@pytest.mark.parametrize(
    "broken",
    [
        {"inputs": 3},
        {"inputs": [{"name": "x", "datatype": "FP32"}]},
        {"inputs": [{"name": "x", "datatype": "FLOAT", "shape": [1]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1.5]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["one"]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-2]}]},
        {"inputs": [{"name": "", "datatype": "FP32", "shape": []}]},
        {"inputs": ["x"]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}] * 2},
    ],
)
def test_what_is_no_metadata_is_refused(broken: dict[str, Any]) -> None:
    """A body that is no model metadata gives ModelInvalidError, never a bare KeyError."""
    with pytest.raises(ModelInvalidError, match="metadata of digits cannot be read"):
        signature_from_metadata({**_METADATA, **broken})


def test_differences_are_said_in_words() -> None:
    """A tensor that is gone, new or changed is named with what it was and is."""
    stable = signature_from_metadata(_METADATA)
    candidate = signature_from_metadata(
        {
            **_METADATA,
            "inputs": [{"name": "pixels", "datatype": "FP16", "shape": [-1, 64]}],
            "outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, 10]}],
        }
    )
    assert differences(stable, candidate) == [
        "input `pixels` was FP32[-1, 64] and is FP16[-1, 64]",
        "output `probabilities` (FP32[-1, 10]) is gone",
        "output `scores` (FP32[-1, 10]) is new",
    ]


def test_tensors_are_found_by_name() -> None:
    """Inputs and outputs are looked up by name; an absent one is None."""
    signature = signature_from_metadata(_METADATA)
    assert signature.input("pixels") == signature.inputs[0]
    assert signature.output("probabilities") == signature.outputs[0]
    assert signature.input("probabilities") is None
    assert signature.output("pixels") is None
