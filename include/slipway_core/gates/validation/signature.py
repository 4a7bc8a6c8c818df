"""What clients meet of two versions: whether they can go on with the candidate as they did with stable.

A candidate may take more than stable: an input that may be left out, a size that may vary now, larger batches. It may
answer more: a further output. Whatever a client of stable sends must be taken, in the way that it is sent, and what it
reads must be there still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slipway_core.errors import SignatureRefusedError
from slipway_core.tensors import ModelSignature, TensorSpec

_VARIES = -1
_ANOTHER_NAME = (
    "A change that breaks clients needs a model of another name, with `breaking: true` in its release file: clients "
    "change to that name one by one, and no stable version of it is there to compare with."
)


@dataclass(frozen=True)
class ServedTensors:
    """A version's inputs and outputs as clients meet them.

    :param optional: the inputs that may be left out.
    :param streams: it answers over a gRPC stream alone (a decoupled model).
    :param max_batch_size: as its configuration has it, 0 for none; None if it is not known, and not compared.
    """

    signature: ModelSignature
    optional: frozenset[str] = frozenset()
    max_batch_size: int | None = None
    streams: bool = False


@dataclass(frozen=True)
class SignatureChange:
    """One difference: of which tensor (an empty name: of the whole), whether it breaks clients, and in words."""

    kind: str
    name: str
    breaking: bool
    summary: str


def signature_changes(stable: ServedTensors, candidate: ServedTensors) -> tuple[SignatureChange, ...]:
    """Return all differences, in the order of the tensors; none where clients cannot tell the two apart."""
    return (
        *_inputs(stable, candidate),
        *_outputs(stable, candidate),
        *_batches(stable, candidate),
        *_ways_to_ask(stable, candidate),
    )


def require_compatible(
    stable: ServedTensors, candidate: ServedTensors, *, stable_name: str, breaking: bool = False
) -> tuple[SignatureChange, ...]:
    """Return the differences, which are all compatible.

    :param breaking: whether the release file says that the version breaks clients.
    :raises SignatureRefusedError: a client of stable would meet an error, or another answer. That is so whatever the
        release file says: users of one name are users of one signature.
    """
    changes = signature_changes(stable, candidate)
    found = [change.summary for change in changes if change.breaking]
    if found:
        raise SignatureRefusedError(
            f"the candidate's signature differs from that of {stable_name}",
            expected="the same inputs and outputs, or more, since clients do not change with the model",
            found="; ".join(found),
            remedy=_ANOTHER_NAME if breaking else f"Export the model with the same tensors. {_ANOTHER_NAME}",
        )
    return changes


def _inputs(stable: ServedTensors, candidate: ServedTensors) -> Iterator[SignatureChange]:
    for name, old, new in _pairs(stable.signature.inputs, candidate.signature.inputs):
        if old is None:
            must = name not in candidate.optional
            yield SignatureChange("input", name, must, f"input `{name}` ({new}) is new{_needed(must)}")
        elif new is None:
            yield SignatureChange("input", name, True, f"input `{name}` ({old}) is gone")
        else:
            if old != new:
                summary = f"input `{name}` was {old} and is {new}"
                yield SignatureChange("input", name, not _takes(old, new), summary)
            if name in stable.optional - candidate.optional:
                yield SignatureChange("input", name, True, f"input `{name}` was optional and is not")
            if name in candidate.optional - stable.optional:
                yield SignatureChange("input", name, False, f"input `{name}` is optional now")


def _needed(must: bool) -> str:
    return ", and not optional" if must else ", and optional"


def _outputs(stable: ServedTensors, candidate: ServedTensors) -> Iterator[SignatureChange]:
    varying = _sizes_that_vary_now(stable.signature.inputs, candidate.signature.inputs)
    for name, old, new in _pairs(stable.signature.outputs, candidate.signature.outputs):
        if old is None:
            yield SignatureChange("output", name, False, f"output `{name}` ({new}) is new")
        elif new is None:
            yield SignatureChange("output", name, True, f"output `{name}` ({old}) is gone")
        elif old != new:
            # Asked with the size of before, such an output has the size of before.
            follows = _takes(old, new) and _loosened(old, new) <= varying
            summary = f"output `{name}` was {old} and is {new}"
            yield SignatureChange("output", name, not follows, summary)


def _batches(stable: ServedTensors, candidate: ServedTensors) -> Iterator[SignatureChange]:
    before, after = stable.max_batch_size, candidate.max_batch_size
    if before is None or after is None or before == after:
        return
    taken_before, taken_after = _most_rows(stable), _most_rows(candidate)
    summary = f"`max_batch_size` was {before} and is {after}"
    yield SignatureChange("batch", "", taken_after < taken_before, summary)


def _ways_to_ask(stable: ServedTensors, candidate: ServedTensors) -> Iterator[SignatureChange]:
    if candidate.streams and not stable.streams:
        summary = "the model answered single requests, and answers over a gRPC stream alone now (decoupled)"
        yield SignatureChange("protocol", "", True, summary)
    if stable.streams and not candidate.streams:
        yield SignatureChange(
            "protocol", "", False, "the model answers single requests now, not streams alone"
        )


def _most_rows(served: ServedTensors) -> float:
    """Return how many rows a request may have; without a batch dimension as many as the inputs' shapes allow."""
    if served.max_batch_size:
        return served.max_batch_size
    first = [tensor.shape[0] for tensor in served.signature.inputs if tensor.shape]
    return float("inf") if _VARIES in first else max(first, default=0)


def _takes(old: TensorSpec, new: TensorSpec) -> bool:
    """Return whether all that fits the old tensor fits the new one."""
    return (
        old.datatype == new.datatype
        and len(old.shape) == len(new.shape)
        and all(after in (before, _VARIES) for before, after in zip(old.shape, new.shape, strict=True))
    )


def _loosened(old: TensorSpec, new: TensorSpec) -> set[int]:
    """Return the sizes that were fixed and may vary now."""
    pairs = zip(old.shape, new.shape, strict=True)
    return {before for before, after in pairs if after == _VARIES and before != _VARIES}


def _sizes_that_vary_now(stable: Sequence[TensorSpec], candidate: Sequence[TensorSpec]) -> set[int]:
    found: set[int] = set()
    for _, old, new in _pairs(stable, candidate):
        if old is not None and new is not None and _takes(old, new):
            found |= _loosened(old, new)
    return found


def _pairs(
    stable: Sequence[TensorSpec], candidate: Sequence[TensorSpec]
) -> Iterator[tuple[str, TensorSpec | None, TensorSpec | None]]:
    before = {tensor.name: tensor for tensor in stable}
    after = {tensor.name: tensor for tensor in candidate}
    for name in sorted(before.keys() | after.keys()):
        yield name, before.get(name), after.get(name)
