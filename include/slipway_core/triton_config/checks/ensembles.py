"""What Triton's core wants of an ensemble: its steps, and that each tensor between them is written and read.

After `model_config_utils.cc` (`ValidateEnsembleSchedulingConfig`, `BuildEnsembleGraph`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway_core.triton_config.case import Case, Contradiction

_STEPS = "ensemble_scheduling.step"


def ensemble_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what a server refuses about an ensemble."""
    if "ensemble_scheduling" not in case.config:
        if case.config.get("platform") == "ensemble":
            yield Contradiction(
                "ensemble_scheduling", "is missing", "the steps of the ensemble", "none", "Write it."
            )
        return
    platform, backend = str(case.config.get("platform") or ""), str(case.config.get("backend") or "")
    if platform != "ensemble" or backend:
        yield Contradiction(
            "platform",
            "does not go with `ensemble_scheduling`",
            "`platform: ensemble`, and no `backend`",
            ", ".join(filter(None, (platform, backend))) or "none",
            "Correct it.",
        )
    yield from _member_settings(case)
    steps = case.message("ensemble_scheduling").get("step") or ()
    if not steps:
        yield Contradiction(_STEPS, "is empty", "one step at least", "none", "Write the steps.")
        return
    incomplete = list(_incomplete(steps))
    yield from incomplete
    if not incomplete:
        yield from _flow(case, steps)


def _member_settings(case: Case) -> Iterator[Contradiction]:
    for name in ("instance_group", "optimization", "model_warmup"):
        if case.config.get(name) or (name == "optimization" and name in case.config):
            yield Contradiction(
                name,
                "does not go with an ensemble",
                "only the members of an ensemble run on something",
                "an ensemble",
                f"Set it for the members, and leave `{name}` out here.",
            )


def _incomplete(steps: Any) -> Iterator[Contradiction]:
    for index, step in enumerate(steps):
        for field in ("model_name", "input_map", "output_map"):
            if not step.get(field):
                yield Contradiction(f"{_STEPS}[{index}].{field}", "is missing", field, "none", "Write it.")


def _flow(case: Case, steps: Any) -> Iterator[Contradiction]:
    """Follow the tensors from the ensemble's inputs from step to step, as far as they come."""
    written: dict[str, int] = {}
    for index, step in enumerate(steps):
        for name in map(str, step["output_map"].values()):
            if name in written:
                yield Contradiction(
                    f"{_STEPS}[{index}].output_map",
                    f"writes `{name}`, as step {written[name]} does",
                    "each tensor written once",
                    name,
                    "Give one of the two another name.",
                )
            written.setdefault(name, index)
    read = {str(name) for step in steps for name in step["input_map"].values()}
    given = [str(entry.get("name")) for entry in case.entries("input")]
    wanted = [str(entry.get("name")) for entry in case.entries("output")]
    ready = _reached(steps, given)
    known = read | written.keys()
    for role, names, unused in (
        ("input", given, set(given) - known),
        ("output", wanted, set(wanted) - known),
    ):
        for index, name in enumerate(names):
            if name in unused:
                yield Contradiction(
                    f"{role}[{index}].name",
                    "is not used in any step",
                    f"one of {', '.join(sorted(known))}",
                    name,
                    "Map it in a step, or remove it.",
                )
            elif role == "output" and name not in ready:
                yield _unwritten(f"{role}[{index}].name", name, steps, ready)
    for name in sorted(known - set(wanted)):
        if name not in ready:
            yield _unwritten(f"{_STEPS}: {name}", name, steps, ready)
        elif name not in read:
            yield Contradiction(
                f"{_STEPS}: {name}",
                "is written, and nothing reads it",
                "a step or an output of the ensemble that takes it",
                name,
                "Take it out of `output_map`, or use it.",
            )


def _reached(steps: Any, given: list[str]) -> set[str]:
    ready, waiting = set(given), list(steps)
    while True:
        runs = [step for step in waiting if ready.issuperset(map(str, step["input_map"].values()))]
        if not runs:
            return ready
        waiting = [step for step in waiting if step not in runs]
        ready.update(str(name) for step in runs for name in step["output_map"].values())


def _unwritten(field: str, name: str, steps: Any, ready: set[str]) -> Contradiction:
    return Contradiction(
        field,
        "is never written",
        "steps that lead from the ensemble's inputs to it",
        ", ".join(sorted(_lacked(name, steps) - ready)) or name,
        "Correct the maps of the steps, or add the input.",
    )


def _lacked(name: str, steps: Any) -> set[str]:
    """Return what the step that writes the tensor reads; the tensor itself where no step does."""
    writers: list[Mapping[str, Any]] = [step for step in steps if name in step["output_map"].values()]
    return {str(one) for step in writers for one in step["input_map"].values()} or {name}
