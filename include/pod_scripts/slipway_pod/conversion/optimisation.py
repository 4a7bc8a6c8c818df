"""What ONNX Runtime's own optimisations do to a model's answers, as opposed to what its conversion does.

A server runs a model with every optimisation on, and one that is quantised answers otherwise then than without. So
parity holds two models of ONNX Runtime against each other at the same level, and this difference is measured by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slipway_pod.conversion.run import ConversionRun
from slipway_pod.errors import PodError
from slipway_pod.parity.outputs import compare_output
from slipway_pod.parity.rules import rule_for
from slipway_pod.program.progress import say

_SHOWN_KEYS = ("output", "rows", "max_abs_diff", "max_rel_diff", "mismatched_rows", "top_1_agreement")


def optimisation_effect(
    run: ConversionRun, model: str, off: Mapping[str, Any], on: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how far the answers of one model with every optimisation on are from those without any.

    :param model: which one it is, in words.
    :param off: its answers without any, by output; `on`: with all of them.
    """
    compared = [compare_output(name, off[name], on[name], rule_for(name, run.options)) for name in off]
    outputs = [{key: entry[key] for key in _SHOWN_KEYS if key in entry} for entry in compared]
    found = {"of": model, "outputs": outputs}
    say("optimisation", effect_in_words(found) or f"ONNX Runtime's do not change the answers of {model}")
    return found


def measured_effect(
    run: ConversionRun,
    model: str,
    answers: Mapping[str, Any],
    answer: Callable[[], Mapping[str, Any]],
    *,
    optimised: bool,
) -> dict[str, Any]:
    """Return the effect, where `answer` gives the answers at the other level; a reason where they cannot be had.

    :param optimised: whether `answers` are those with every optimisation on.
    """
    try:
        other = answer()
    except (
        PodError
    ) as error:  # the level that is served, or converted, has answered: the other one is for people
        return {"of": model, "outputs": [], "reason": f"{error.what}: {error.found}"}
    return optimisation_effect(run, model, *((other, answers) if optimised else (answers, other)))


def effect_in_words(effect: Mapping[str, Any] | None) -> str:
    """Return the effect as a sentence without its end; empty if nothing changes, or nothing was measured."""
    changed = [
        f"`{entry['output']}` by up to {entry['max_abs_diff']}"
        for entry in (effect or {}).get("outputs", ())
        if entry["max_abs_diff"] not in (None, 0, 0.0)
    ]
    if effect is None or not changed:
        return ""
    return f"ONNX Runtime's optimisations alone change the answers of {effect['of']}: {', '.join(changed)}"
