"""What Triton's core wants of `batch_input` and `batch_output`: tensors that it makes of a whole batch.

After `model_config_utils.cc` (`ValidateBatchIO`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway_core.triton_config.case import Case, Contradiction

_DATATYPES = ("TYPE_INT32", "TYPE_FP32")


def batch_targets(config: Mapping[str, Any], field: str) -> list[str]:
    """Return the names of the tensors that `batch_input` or `batch_output` (`field`) makes."""
    return [str(name) for entry in config.get(field) or () for name in entry.get("target_name") or ()]


def batch_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what a server refuses about the tensors that are made of a whole batch."""
    inputs = [str(entry.get("name")) for entry in case.entries("input")]
    outputs = [str(entry.get("name")) for entry in case.entries("output")]
    for field in ("batch_input", "batch_output"):
        targets: set[str] = set()
        for index, entry in enumerate(case.entries(field)):
            place = f"{field}[{index}]"
            yield from _source(f"{place}.source_input", entry.get("source_input") or (), inputs)
            names = [str(name) for name in entry.get("target_name") or ()]
            yield from _targets(f"{place}.target_name", names, targets)
            targets.update(names)
            if field == "batch_output":
                yield from _known(f"{place}.target_name", names, outputs, "output")
            elif entry.get("data_type") not in _DATATYPES:
                yield Contradiction(
                    f"{place}.data_type",
                    "isn't a tensor that Triton creates from a batch",
                    " or ".join(_DATATYPES),
                    str(entry.get("data_type") or "none"),
                    "Correct it.",
                )


def _source(place: str, names: Sequence[Any], inputs: Sequence[str]) -> Iterator[Contradiction]:
    if len(names) != 1:
        yield Contradiction(
            place,
            "is not one input",
            "the name of one input",
            ", ".join(map(str, names)) or "none",
            "Correct it.",
        )
    yield from _known(place, [str(name) for name in names], inputs, "input")


def _known(place: str, names: Sequence[str], known: Sequence[str], role: str) -> Iterator[Contradiction]:
    for name in names:
        if name not in known:
            yield Contradiction(
                place, f"names no {role}", f"one of {', '.join(known) or 'none'}", name, "Correct the name."
            )


def _targets(place: str, names: Sequence[str], before: set[str]) -> Iterator[Contradiction]:
    if not names:
        yield Contradiction(place, "is missing", "the tensor that it makes", "none", "Write it.")
    for name in sorted({name for name in names if names.count(name) > 1 or name in before}):
        yield Contradiction(place, "is created twice", "each tensor made once", name, "Remove one.")
