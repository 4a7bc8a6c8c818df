"""What Triton's core wants of sequence batching: its controls, and how many slots must be filled.

After `model_config_utils.cc` (`GetBooleanSequenceControlProperties`, `GetTypedSequenceControlProperties`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway_core.triton_config.case import Case, Contradiction

_PAIRS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_CORRELATION_ID = "CONTROL_SEQUENCE_CORRID"
_CORRELATION_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")


def sequence_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what a server refuses about `sequence_batching`."""
    batching = case.message("sequence_batching")
    tensors: set[str] = set()
    kinds: dict[str, str] = {}
    for index, entry in enumerate(batching.get("control_input") or ()):
        place = f"sequence_batching.control_input[{index}]"
        name = str(entry.get("name") or "")
        if name and name in tensors:
            yield Contradiction(
                f"{place}.name",
                "is that of another control",
                "a separate input for each",
                name,
                "Remove one.",
            )
        tensors.add(name)
        for control in entry.get("control") or ():
            kind = str(control.get("kind") or "CONTROL_SEQUENCE_START")
            if kind in kinds:
                yield Contradiction(
                    f"{place}.control",
                    f"is {kind} for a second time",
                    f"one input for it, such as `{kinds[kind]}`",
                    name,
                    "Remove one.",
                )
            kinds.setdefault(kind, name)
            yield from _control(f"{place}.control", kind, control)
    utilization = float((batching.get("direct") or {}).get("minimum_slot_utilization") or 0)
    if not 0 <= utilization <= 1:
        yield Contradiction(
            "sequence_batching.direct.minimum_slot_utilization",
            "is not a share",
            "a number from 0 to 1",
            str(utilization),
            "Correct it.",
        )


def _control(place: str, kind: str, control: Mapping[str, Any]) -> Iterator[Contradiction]:
    given = [pair for pair in _PAIRS if control.get(pair)]
    if kind == _CORRELATION_ID:
        datatype = str(control.get("data_type") or "TYPE_INVALID")
        if given or datatype not in _CORRELATION_TYPES:
            yield Contradiction(
                place,
                "is not a correlation ID that Triton provides",
                f"`data_type`, one of {', '.join(_CORRELATION_TYPES)}, and no pair of values",
                ", ".join([datatype, *given]),
                "Correct it.",
            )
    elif len(given) != 1 or len(control[given[0]]) != len(("false", "true")):
        yield Contradiction(
            place,
            f"does not say the two values of {kind}",
            f"one of {', '.join(_PAIRS)}, with two values",
            ", ".join(f"{pair}: {list(control[pair])}" for pair in given) or "none",
            "Correct it.",
        )
