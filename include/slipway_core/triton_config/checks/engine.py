"""Contradictions between a configuration and the optimisation profiles of a TensorRT engine.

After Triton's TensorRT backend (`src/instance_state.cc`): a group of instances without `profile` uses profile 0.
When an instance is made, the whole shape of each input, `max_batch_size` first, must lie within each profile of
its group. A batch that is run takes the nearest profile that it fits into, and fails where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway_core.triton_config.case import Case, Contradiction, EngineProfile


def profile_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what does not fit between the sizes of the configuration and the profiles that its instances use."""
    if not case.profiles:
        return
    groups = [_used(group, len(case.profiles)) for group in case.entries("instance_group") or ({},)]
    if case.max_batch_size:
        yield from _largest_batch(case, groups)
        yield from _smallest_batch(case, groups)
    for number in sorted({number for used in groups for number in used}):
        yield from _sizes(case, number)


def _used(group: Mapping[str, Any], count: int) -> list[int]:
    """Return the numbers of a group's profiles that exist; another check reports those that don't."""
    given = [str(profile) for profile in group.get("profile") or ("0",)]
    return [int(profile) for profile in given if profile.isdecimal() and int(profile) < count]


def _batches(profile: EngineProfile) -> tuple[int, int]:
    """Return the smallest and the largest batch that all inputs take."""
    least, most = (
        [int(shape[0]) for shape in profile[end].values() if len(shape)] or [1] for end in ("min", "max")
    )
    return max(least), min(most)


def _largest_batch(case: Case, groups: Sequence[Sequence[int]]) -> Iterator[Contradiction]:
    """Yield a problem if `max_batch_size` is above what a profile takes; it names only the narrowest profile."""
    used = [(index, number) for index, numbers in enumerate(groups) for number in numbers]
    if not used:
        return
    index, number = min(used, key=lambda one: _batches(case.profiles[one[1]])[1])
    most = _batches(case.profiles[number])[1]
    if case.max_batch_size > most:
        where = f"profile {number}, which instance_group[{index}] uses"
        yield Contradiction(
            "max_batch_size",
            "is larger than the engine's profile",
            f"at most {most}, as {where}",
            str(case.max_batch_size),
            f"Set `serving.max_batch_size: {most}`, give those instances other `profiles`, or build the engine for "
            "larger batches: each profile of a group must take the largest batch.",
        )
    index, number = max(used, key=lambda one: _batches(case.profiles[one[1]])[0])
    least = _batches(case.profiles[number])[0]
    if case.max_batch_size < least:
        yield Contradiction(
            "max_batch_size",
            "is smaller than the engine's profile",
            f"at least {least}, as profile {number}, which instance_group[{index}] uses",
            str(case.max_batch_size),
            f"Set `serving.max_batch_size: {least}` or more, or give those instances other `profiles`.",
        )


def _smallest_batch(case: Case, groups: Sequence[Sequence[int]]) -> Iterator[Contradiction]:
    """Yield where a batch can be smaller than a profile takes.

    Preferred sizes do not prevent that: a request that has waited long enough runs in whatever batch there is.
    """
    for index, numbers in enumerate(groups):
        least = min((_batches(case.profiles[number])[0] for number in numbers), default=1)
        if least > 1:
            yield Contradiction(
                f"instance_group[{index}].profile",
                "has no place for a single row",
                "a profile whose smallest batch is 1",
                f"{least}, in profile {', '.join(map(str, numbers))}",
                "Build the engine with `min` of batch 1 (`conversion.profiles`), or add a profile that has it.",
            )


def _sizes(case: Case, number: int) -> Iterator[Contradiction]:
    profile = case.profiles[number]
    for index, tensor in enumerate(case.entries("input")):
        name, reshape = str(tensor.get("name")), tensor.get("reshape")
        dims = (tensor.get("dims") if reshape is None else reshape.get("shape")) or ()
        shape = [*([-1] if case.max_batch_size else []), *(int(size) for size in dims)]
        least, most = (list(profile[end].get(name) or shape) for end in ("min", "max"))
        if len(shape) != len(least) or len(shape) != len(most):
            continue  # the comparison with the model's own shape reports it
        if any(
            size != -1 and not low <= size <= high for size, low, high in zip(shape, least, most, strict=True)
        ):
            yield Contradiction(
                f"input[{index}].dims",
                f"does not fit profile {number} of the engine",
                f"sizes from {least} to {most}" + (", batch first" if case.max_batch_size else ""),
                str(list(dims)),
                "Correct `dims` in config.pbtxt, or build the engine with another profile.",
            )
