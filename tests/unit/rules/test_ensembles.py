"""Which models a model calls, and the order in which they can be loaded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_rules.ensembles import called_models, load_order
from slipway_rules.errors import RuleError

NAMES = ("top", "a", "b", "c")
CALLS = st.lists(st.sampled_from((*NAMES, "absent")), max_size=3)
GRAPHS = st.fixed_dictionaries({"top": CALLS}, optional=dict.fromkeys(NAMES[1:], CALLS))


def test_models_are_called_by_steps_and_by_parameters() -> None:
    """Each is named once; a step's counts in any case, a parameter's only where there is such a model."""
    parameters = [("tokenizer_model_name", "b"), ("model_name", "absent"), ("model_path", "c")]
    assert called_models(["a", "missing", "a"], parameters, NAMES) == ["a", "missing", "b"]


@given(GRAPHS)
def test_each_model_comes_after_those_it_calls(calls: dict[str, list[str]]) -> None:
    """Where there is an order, it holds all that are asked for and called, each once; otherwise it is said why."""
    try:
        order = load_order(calls, ["top"])
    except RuleError as error:
        told = error.what
        assert "circle" in told or "not in the repository" in told
        return
    assert order[-1] == "top"
    assert len(set(order)) == len(order)
    for name in order:
        assert all(order.index(called) < order.index(name) for called in calls[name])


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ({"top": ["a"], "a": ["b"], "b": ["a"]}, "a \N{RIGHTWARDS ARROW} b \N{RIGHTWARDS ARROW} a"),
        ({"top": ["top"]}, "top \N{RIGHTWARDS ARROW} top"),
        ({"top": ["absent"]}, "absent"),
        ({"top": [""]}, "no name"),
    ],
    ids=["circle", "itself", "stranger", "nothing"],
)
def test_what_cannot_be_loaded_is_told(calls: dict[str, list[str]], found: str) -> None:
    """A circle is shown from the first model to itself, a stranger by its name."""
    with pytest.raises(RuleError) as caught:
        load_order(calls, ["top"])
    assert caught.value.details["found"] == found
