"""Models that call each other: by the steps of an ensemble, or by a parameter that names one.

A parameter whose key ends in `model_name` tells a model that calls others while it runs their names (such as
TensorRT-LLM's `tensorrt_llm_model_name`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from slipway_rules.errors import RuleError

CALLED_BY_PARAMETER = "model_name"


def called_models(
    steps: Iterable[str], parameters: Iterable[tuple[str, str]], known: Container[str]
) -> list[str]:
    """Return the names of the models that a model calls, each once: those of its steps, and those parameters name.

    :param steps: the models of its steps, which are returned whether or not they are among `known`.
    :param parameters: key and value of each parameter; it counts only if it names a known model, since its key may
        mean something else.
    """
    named = (value for key, value in parameters if key.endswith(CALLED_BY_PARAMETER) and value in known)
    return list(dict.fromkeys((*steps, *named)))


def load_order(calls: Mapping[str, Sequence[str]], first: Iterable[str]) -> list[str]:
    """Return the models of `first` and all that they call, so that each comes after those it calls.

    :param calls: which models each one calls.
    :raises RuleError: one calls a model that is not there, or by a chain of calls itself.
    """
    order: list[str] = []
    for name in first:
        _visit(name, calls, order, ())
    return order


def _visit(name: str, calls: Mapping[str, Sequence[str]], order: list[str], above: tuple[str, ...]) -> None:
    if name in order:
        return
    if name not in calls:
        raise RuleError(
            f"{above[-1]!r} calls the model {name!r}, which is not in the repository",
            expected=f"one of {', '.join(sorted(calls))}",
            found=name or "no name",
            remedy="Put the member into the repository, or correct the step.",
        )
    if name in above:
        raise RuleError(
            "the models call each other in a circle",
            expected="an order in which each model only needs those before it",
            found=" → ".join([*above[above.index(name) :], name]),
            remedy="Take one of these steps out.",
        )
    for called in calls[name]:
        _visit(called, calls, order, (*above, name))
    order.append(name)
