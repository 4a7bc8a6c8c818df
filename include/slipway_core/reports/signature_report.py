"""What clients see of two versions, side by side: the report that a refused signature leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from slipway_core.errors import SignatureRefusedError
from slipway_core.gates.validation.signature import (
    ServedTensors,
    SignatureChange,
    signature_changes,
)
from slipway_core.tensors import TensorSpec


def signature_report(
    error: SignatureRefusedError,
    *,
    model: str,
    version: int,
    stable_version: int,
    not_compared: str,
    created_at: str,
    stable: ServedTensors,
    candidate: ServedTensors,
) -> dict[str, Any]:
    """Return the report of a refused signature, ready for JSON and for `validation.page.render_report_html`.

    `tensors` has a row for each name on either side: `{"kind", "name", "stable", "candidate", "fits"}`, a side as
    `{"datatype", "shape", "optional"}` or None if it lacks the tensor. No request was sent: there are no numbers.
    """
    changes = signature_changes(stable, candidate)
    return {
        "model": model,
        "version": version,
        "stable_version": stable_version,
        "not_compared": not_compared or None,
        "created_at": created_at,
        "outcome": "fail",
        "reasons": [change.summary for change in changes if change.breaking],
        "signature_changes": [change.summary for change in changes if not change.breaking],
        "found": error.found,
        "remedy": error.remedy,
        "tensors": list(_rows(stable, candidate, changes)),
    }


def _rows(
    stable: ServedTensors, candidate: ServedTensors, changes: Sequence[SignatureChange]
) -> Iterator[dict[str, Any]]:
    broken = {(change.kind, change.name) for change in changes if change.breaking}
    for kind, before, after in (
        ("input", stable.signature.inputs, candidate.signature.inputs),
        ("output", stable.signature.outputs, candidate.signature.outputs),
    ):
        was = _sides(before, stable.optional if kind == "input" else frozenset())
        now = _sides(after, candidate.optional if kind == "input" else frozenset())
        for name in sorted(was.keys() | now.keys()):
            old, new = was.get(name), now.get(name)
            fits = (kind, name) not in broken
            yield {"kind": kind, "name": name, "stable": old, "candidate": new, "fits": fits}


def _sides(tensors: Sequence[TensorSpec], optional: frozenset[str]) -> dict[str, dict[str, Any]]:
    return {
        tensor.name: {
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
            "optional": tensor.name in optional,
        }
        for tensor in tensors
    }
