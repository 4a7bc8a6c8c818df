"""What clients see of two versions, side by side: the report that a refused signature leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from include.model_release.errors import SignatureRefusedError
from include.model_release.tensors import ModelSignature, TensorSpec, differences, require_equal


@dataclass(frozen=True)
class ServedTensors:
    """A version's inputs and outputs as clients meet them; `optional` names the inputs that may be left out."""

    signature: ModelSignature
    optional: frozenset[str] = frozenset()


def require_same_tensors(stable: ServedTensors, candidate: ServedTensors, *, stable_name: str) -> None:
    """Raise SignatureRefusedError where a client of `stable` would meet something else in `candidate`."""
    require_equal(stable.signature, candidate.signature, stable_name=stable_name)
    needed = _no_longer_optional(stable, candidate)
    if needed:
        raise SignatureRefusedError(
            f"the candidate needs inputs that {stable_name} does not",
            expected="that a request which leaves them out is still answered: clients do not change with the model",
            found=f"{', '.join(f'`{name}`' for name in needed)} without `optional: true`",
            remedy="Make them optional again, or release it as a new model under another name.",
        )


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

    `tensors` has a row for each name on either side: `{"kind", "name", "stable", "candidate", "same"}`, a side as
    `{"datatype", "shape", "optional"}` or None where it lacks the tensor. No request was sent: there are no numbers.
    """
    reasons = differences(stable.signature, candidate.signature)
    reasons += [f"input `{name}` was optional and is not" for name in _no_longer_optional(stable, candidate)]
    return {
        "model": model,
        "version": version,
        "stable_version": stable_version,
        "not_compared": not_compared or None,
        "created_at": created_at,
        "outcome": "fail",
        "reasons": reasons,
        "found": error.found,
        "remedy": error.remedy,
        "tensors": list(_rows(stable, candidate)),
    }


def _no_longer_optional(stable: ServedTensors, candidate: ServedTensors) -> list[str]:
    kept = {tensor.name for tensor in candidate.signature.inputs}
    return sorted((stable.optional & kept) - candidate.optional)


def _rows(stable: ServedTensors, candidate: ServedTensors) -> Iterator[dict[str, Any]]:
    for kind, before, after in (
        ("input", stable.signature.inputs, candidate.signature.inputs),
        ("output", stable.signature.outputs, candidate.signature.outputs),
    ):
        was = _sides(before, stable.optional if kind == "input" else frozenset())
        now = _sides(after, candidate.optional if kind == "input" else frozenset())
        for name in sorted(was.keys() | now.keys()):
            old, new = was.get(name), now.get(name)
            yield {"kind": kind, "name": name, "stable": old, "candidate": new, "same": _same(old, new)}


def _same(stable: dict[str, Any] | None, candidate: dict[str, Any] | None) -> bool:
    """Tell whether clients of stable can go on; an input that may be left out now asks no more of them."""
    if stable is None or candidate is None:
        return False
    kept = all(stable[name] == candidate[name] for name in ("datatype", "shape"))
    return kept and candidate["optional"] >= stable["optional"]


def _sides(tensors: Sequence[TensorSpec], optional: frozenset[str]) -> dict[str, dict[str, Any]]:
    return {
        tensor.name: {
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
            "optional": tensor.name in optional,
        }
        for tensor in tensors
    }
