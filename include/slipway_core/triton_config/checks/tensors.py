"""Contradictions between a configuration's tensors, the model's own and those of warm-up requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway_core.identifiers import nearest
from slipway_core.tensors import TensorSpec
from slipway_core.triton_config.case import Case, Contradiction
from slipway_core.triton_config.checks.batch_tensors import batch_targets
from slipway_core.triton_config.checks.onnxruntime import is_onnxruntime, onnxruntime_tensor


def unnamed_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what nobody could address: tensors and states without a name, and two of one name."""
    for role in ("input", "output"):
        names: set[str] = set()
        for index, entry in enumerate(case.entries(role)):
            yield from _lacking(f"{role}[{index}]", entry, ("name",))
            name = str(entry.get("name") or "")
            if name and name in names:
                yield Contradiction(
                    f"{role}[{index}].name",
                    f"is that of another {role}",
                    "names of their own",
                    name,
                    "Remove one.",
                )
            names.add(name)
    sequence = case.message("sequence_batching")
    for index, state in enumerate(sequence.get("state") or ()):
        yield from _lacking(f"sequence_batching.state[{index}]", state, ("input_name", "output_name"))
    for index, control in enumerate(sequence.get("control_input") or ()):
        yield from _lacking(f"sequence_batching.control_input[{index}]", control, ("name",))


def _lacking(place: str, entry: Mapping[str, Any], fields: Sequence[str]) -> Iterator[Contradiction]:
    for field in fields:
        if not entry.get(field):
            yield Contradiction(
                f"{place}.{field}", "is missing", "a name", "none", "Write it, or remove the entry."
            )


def tensor_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what does not fit between the configuration's tensors and the model's."""
    if case.signature is None:
        return
    sequence = case.message("sequence_batching")
    states = sequence.get("state") or ()
    controls = [str(one.get("name")) for one in sequence.get("control_input") or ()]
    elsewhere = {
        "input": {
            *controls,
            *(str(state.get("input_name")) for state in states),
            *batch_targets(case.config, "batch_input"),
        },
        "output": {str(state.get("output_name")) for state in states},
    }
    has_model_file = case.config.get("backend") != "python" and case.config.get("platform") != "ensemble"
    for role, tensors in (("input", case.signature.inputs), ("output", case.signature.outputs)):
        needed = {tensor.name for tensor in tensors}
        more = case.overridable if role == "input" else ()
        known = {tensor.name: tensor for tensor in (*more, *tensors)}
        named = set()
        for index, entry in enumerate(case.entries(role)):
            name = str(entry.get("name"))
            named.add(name)
            yield from _tensor(case, f"{role}[{index}]", role, entry, known.get(name), sorted(known))
        if not has_model_file:
            continue
        for name in sorted(elsewhere[role] - known.keys()):
            field = (
                "batch_input" if name in batch_targets(case.config, "batch_input") else "sequence_batching"
            )
            yield _unknown(f"{field}: {name}", role, name, sorted(known))
        for name in sorted(needed - named - elsewhere[role]):
            # A backend need not give every output, but it wants every input.
            if role == "input":
                yield Contradiction(
                    role,
                    f"lacks `{name}`",
                    f"all of {', '.join(sorted(needed))}",
                    ", ".join(sorted(named)) or "none",
                    f"Add the input `{name}` to config.pbtxt, or leave `input` out there.",
                )


def _tensor(
    case: Case,
    place: str,
    role: str,
    entry: Mapping[str, Any],
    tensor: TensorSpec | None,
    names: Sequence[str],
) -> Iterator[Contradiction]:
    name = str(entry.get("name"))
    if tensor is None:
        yield _unknown(f"{place}.name", role, name, names)
        return
    datatype = str(entry.get("data_type", "TYPE_INVALID")).removeprefix("TYPE_").replace("STRING", "BYTES")
    if datatype != tensor.datatype:
        yield Contradiction(
            f"{place}.data_type",
            f"is not that of the model's `{name}`",
            tensor.datatype,
            datatype,
            "Correct it in config.pbtxt.",
        )
    if is_onnxruntime(case.config):
        yield from onnxruntime_tensor(case, place, role, entry, tensor)
        return
    reshape = entry.get("reshape")
    dims = [int(size) for size in (entry.get("dims") if reshape is None else reshape.get("shape")) or ()]
    shape = [*([-1] if case.max_batch_size else []), *dims]
    if len(shape) != len(tensor.shape) or any(
        ours != theirs and -1 not in (ours, theirs) for ours, theirs in zip(shape, tensor.shape, strict=True)
    ):
        yield Contradiction(
            f"{place}.dims",
            f"does not fit the model's `{name}`",
            f"{tensor}, of which the first size is the batch" if case.max_batch_size else str(tensor),
            str(dims),
            "Correct `dims` in config.pbtxt, or `max_batch_size`.",
        )


def _unknown(field: str, role: str, name: str, names: Sequence[str]) -> Contradiction:
    near = nearest(name, list(names))
    return Contradiction(
        field,
        f"is no {role} of the model",
        f"one of {', '.join(names)}",
        name,
        f"Did you mean `{near}`?" if near else "Remove it.",
    )


def warmup_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what does not fit between warm-up requests and the configuration's inputs."""
    inputs = {str(tensor.get("name")): tensor for tensor in case.entries("input")}
    for index, sample in enumerate(case.entries("model_warmup")):
        place = f"model_warmup[{index}]"
        size = int(sample.get("batch_size") or 0)
        if size > max(case.max_batch_size, 1):
            yield Contradiction(
                f"{place}.batch_size",
                "goes above `max_batch_size`",
                f"at most {max(case.max_batch_size, 1)}",
                str(size),
                "Make it smaller, or raise `serving.max_batch_size`.",
            )
        given = sample.get("inputs") or {}
        for name, value in given.items():
            if name not in inputs:
                yield _unknown(f"{place}.inputs[{name}]", "input", name, sorted(inputs))
            elif value.get("data_type") != inputs[name].get("data_type"):
                yield Contradiction(
                    f"{place}.inputs[{name}].data_type",
                    "is not the input's",
                    str(inputs[name].get("data_type")),
                    str(value.get("data_type")),
                    "Correct it.",
                )
            elif not _sizes_fit(value.get("dims") or (), inputs[name].get("dims") or ()):
                yield Contradiction(
                    f"{place}.inputs[{name}].dims",
                    "does not fit the input",
                    f"sizes that fit {list(inputs[name].get('dims') or ())} (-1: any)",
                    str(list(value.get("dims") or ())),
                    "Correct it; the batch dimension is not one of them.",
                )
        missing = sorted(
            name for name, tensor in inputs.items() if name not in given and not tensor.get("optional")
        )
        if missing:
            yield Contradiction(
                f"{place}.inputs",
                f"lacks `{missing[0]}`",
                "every input",
                ", ".join(given) or "none",
                "Add it.",
            )


def _sizes_fit(given: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return len(given) == len(wanted) and all(
        int(theirs) == -1 or int(ours) == int(theirs) for ours, theirs in zip(given, wanted, strict=True)
    )
