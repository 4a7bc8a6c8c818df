"""The signature gate: what a candidate may do more than stable, and what breaks clients."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import SignatureRefusedError
from slipway_core.gates.validation.signature import (
    ServedTensors,
    require_compatible,
    signature_changes,
)
from slipway_core.tensors import ModelSignature, TensorSpec


def tensor(name: str, *shape: int, datatype: str = "FP32") -> TensorSpec:
    return TensorSpec.model_validate({"name": name, "datatype": datatype, "shape": shape})


def served(
    *inputs: TensorSpec, outputs: tuple[TensorSpec, ...] = (), optional: str = "", batch: int | None = 8
) -> ServedTensors:
    """A version with these inputs; its outputs are `y` unless others are given."""
    signature = ModelSignature(inputs=inputs, outputs=outputs or (tensor("y", -1, 10),))
    return ServedTensors(signature, frozenset(optional.split()), batch)


X, WIDE = tensor("x", -1, 64), tensor("x", -1, -1)
Y, Z = tensor("y", -1, 10), tensor("z", -1)
STABLE = served(X)
SQUARE = served(tensor("x", 1, 64), outputs=(tensor("y", 1, 10),), batch=0)

STREAMS = replace(STABLE, streams=True)

FITS = {
    "streams on both": (STREAMS, STREAMS),
    "single requests where there were streams": (STREAMS, STABLE),
    "the same": (STABLE, STABLE),
    "an optional input is new": (STABLE, served(X, tensor("seed", -1, 1), optional="seed")),
    "an input may be left out now": (STABLE, served(X, optional="x")),
    "a fixed size may vary": (STABLE, served(WIDE)),
    "larger batches": (STABLE, served(X, batch=64)),
    "a batch dimension where there was one row": (SQUARE, served(X, outputs=(Y,), batch=4)),
    "an output is new": (STABLE, served(X, outputs=(Y, Z))),
    "an output varies with its input": (
        served(X, outputs=(tensor("y", -1, 64),)),
        served(WIDE, outputs=(tensor("y", -1, -1),)),
    ),
    "a batch that is not known": (STABLE, served(X, batch=None)),
}
BREAKS = {
    "streams alone": (STABLE, STREAMS, "over a gRPC stream alone"),
    "an input is needed that was not": (STABLE, served(X, tensor("seed", -1, 1)), "`seed`.*not optional"),
    "an input is gone": (served(X, tensor("seed", -1, 1)), STABLE, "`seed`.*is gone"),
    "an input must be sent now": (served(X, optional="x"), STABLE, "`x` was optional"),
    "a size that varied is fixed": (served(WIDE), STABLE, r"was FP32\[-1, -1\] and is FP32\[-1, 64\]"),
    "another size": (STABLE, served(tensor("x", -1, 65)), "65"),
    "another rank": (STABLE, served(tensor("x", -1, 8, 8)), "8, 8"),
    "another type": (STABLE, served(tensor("x", -1, 64, datatype="FP16")), "FP16"),
    "smaller batches": (STABLE, served(X, batch=4), "max_batch_size.*8.*4"),
    "no batches any more": (STABLE, SQUARE, r"FP32\[1, 64\]"),
    "a limit where there was none": (served(X, batch=0), STABLE, "max_batch_size.*0.*8"),
    "an output is gone": (served(X, outputs=(Y, Z)), STABLE, "`z`.*is gone"),
    "an output is of another type": (
        STABLE,
        served(X, outputs=(tensor("y", -1, 10, datatype="FP16"),)),
        "FP16",
    ),
    "an output's size varies by itself": (STABLE, served(X, outputs=(tensor("y", -1, -1),)), "`y`"),
}


@pytest.mark.parametrize(("stable", "candidate"), FITS.values(), ids=FITS)
def test_clients_can_go_on_with_more(stable: ServedTensors, candidate: ServedTensors) -> None:
    """What is wider than before is let through, and each difference is told."""
    changes = require_compatible(stable, candidate, stable_name="version 3")
    known = candidate.max_batch_size is not None
    assert bool(changes) == (stable != candidate and known)


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize(("stable", "candidate", "told"), BREAKS.values(), ids=BREAKS)
def test_what_breaks_clients_is_refused_under_the_same_name(
    stable: ServedTensors, candidate: ServedTensors, told: str, declared: bool
) -> None:
    """`breaking: true` alone permits nothing: the remedy is another name."""
    with pytest.raises(SignatureRefusedError, match=told) as caught:
        require_compatible(stable, candidate, stable_name="version 3", breaking=declared)
    assert "another name" in str(caught.value)
    assert "from that of version 3" in str(caught.value)


SIZES = st.sampled_from([-1, 1, 2])
DATATYPES = st.sampled_from(["FP32", "INT64"])


@st.composite
def versions(draw: st.DrawFn) -> ServedTensors:
    """Versions of few names and sizes, so that two of them are often alike; as Triton tells them."""
    batch = draw(st.sampled_from([0, 4, 8]))

    def tensors(names: str) -> tuple[TensorSpec, ...]:
        chosen = draw(st.sets(st.sampled_from(names), min_size=1))
        head = (-1,) if batch else (draw(SIZES),)
        return tuple(tensor(name, *head, draw(SIZES), datatype=draw(DATATYPES)) for name in sorted(chosen))

    inputs, outputs = tensors("ab"), tensors("yz")
    optional = draw(st.sets(st.sampled_from([one.name for one in inputs])))
    return ServedTensors(ModelSignature(inputs=inputs, outputs=outputs), frozenset(optional), batch)


def fits(stable: ServedTensors, candidate: ServedTensors) -> bool:
    return not any(change.breaking for change in signature_changes(stable, candidate))


@given(versions(), versions())
def test_widening_has_one_direction(first: ServedTensors, second: ServedTensors) -> None:
    """Two versions that could each take the other's place are equal to their clients."""
    assert fits(first, first)
    if fits(first, second) and fits(second, first):
        assert signature_changes(first, second) == ()


@given(versions(), versions())
def test_every_difference_is_told(first: ServedTensors, second: ServedTensors) -> None:
    """No change means the same tensors and the same optional inputs."""
    if not signature_changes(first, second):
        assert (first.signature, first.optional) == (second.signature, second.optional)
