"""The gate on a converter's parity table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway_core.errors import ModelInvalidError, ParityRefusedError
from slipway_core.gates.parity import (
    optimisation_in_words,
    parse_parity,
    require_parity,
    worst_figures,
)
from slipway_core.spec.conversion.parity import ParityRule, ParityRules

ENTRY: dict[str, Any] = {
    "output": "probabilities",
    "max_abs_diff": 1e-7,
    "max_rel_diff": 1e-6,
    "rows": 360,
    "mismatched_rows": 0,
    "pass": True,
    "measure": "top_k",
    "within_share": 0.97,
    "cosine_min": 0.9998,
    "top_1_agreement": 0.99,
    "top_k": 3,
    "top_k_agreement": 0.995,
    "worst": [],
    "compared": "optimised",
}


def test_the_pods_json_is_read() -> None:
    """What the conversion pod writes is read, with `pass` as the pod spells it, and written alike."""
    (parity,) = parse_parity([ENTRY])
    assert parity.passed
    assert parity.model_dump(mode="json", by_alias=True) == ENTRY


@pytest.mark.parametrize(
    "value", [None, {}, [3], [{"output": "y"}], [{"output": "y", "pass": True, "rows": -1}]]
)
def test_broken_json_is_refused(value: object) -> None:
    """What is no list of parities is an error in plain words, which is not tried again."""
    with pytest.raises(ModelInvalidError, match="no readable `parity`"):
        parse_parity(value)


def test_the_gate_refuses_with_numbers() -> None:
    """The refusal names model, output, rows and the largest difference."""
    require_parity(parse_parity([ENTRY]), "digits")
    off = {**ENTRY, "output": "y", "pass": False, "rows": 2, "mismatched_rows": 1, "max_abs_diff": 3}
    with pytest.raises(ParityRefusedError, match=r"digits.*`y`: 1 of 2 rows differ, largest difference 3"):
        require_parity(parse_parity([ENTRY, off]), "digits")


@pytest.mark.parametrize(
    ("measure", "mismatched", "passes"),
    [
        ("tolerance", 0, True),
        ("tolerance", 1, False),
        ("cosine", 1, False),
        ("top_k", 36, True),
        ("top_k", 37, False),
        ("a measure of tomorrow", 1, False),
    ],
)
def test_the_counts_decide_and_not_the_word_alone(measure: str, mismatched: int, passes: bool) -> None:
    """A converter that calls pass what the release file does not allow is not believed."""
    rules = ParityRules(agreement_min=0.5, outputs={"probabilities": ParityRule(agreement_min=0.9)})
    told = parse_parity([{**ENTRY, "measure": measure, "mismatched_rows": mismatched}])
    if passes:
        require_parity(told, "digits", rules=rules)
    else:
        with pytest.raises(ParityRefusedError, match=f"`probabilities`: {mismatched} of 360 rows differ"):
            require_parity(told, "digits", rules=rules)


def test_nothing_compared_is_no_pass() -> None:
    """An empty table, an output without rows, and one that the table does not name, are refused."""
    with pytest.raises(ParityRefusedError, match="no output was compared"):
        require_parity([], "digits")
    with pytest.raises(ParityRefusedError, match="`probabilities`: not compared"):
        require_parity(parse_parity([{**ENTRY, "rows": 0}]), "digits")
    with pytest.raises(ParityRefusedError, match="`label`: not compared"):
        require_parity(parse_parity([ENTRY]), "digits", answered=["label", "probabilities"])


def test_the_worst_figures_are_told_without_the_rows() -> None:
    """Each output's figures, infinities as text, so that they are JSON; the rows stay in the converter's result."""
    worst = [{"row": 3, "source": 1.0, "converted": "inf"}]
    (figures,) = worst_figures(
        parse_parity([{**ENTRY, "max_abs_diff": "inf", "cosine_min": None, "worst": worst}])
    )
    assert json.loads(json.dumps(figures, allow_nan=False))["max_abs_diff"] == "Infinity"
    assert (figures["top_k_agreement"], figures["pass"]) == (0.995, True)
    assert figures.keys() & {"worst", "cosine_min"} == set()


def test_a_higher_precision_is_a_remedy_only_where_it_was_lowered() -> None:
    """In full precision there is none that is higher."""
    off = parse_parity([{**ENTRY, "pass": False}])
    with pytest.raises(ParityRefusedError) as full:
        require_parity(off, "digits")
    with pytest.raises(ParityRefusedError) as lowered:
        require_parity(off, "digits", precision="int8")
    assert "higher precision" not in str(full.value)
    assert "higher precision" in str(lowered.value)


@pytest.mark.parametrize(
    "effect", [None, 3, [], {}, {"of": "it", "outputs": [{"output": 3}]}, {"outputs": []}]
)
def test_an_effect_that_cannot_be_read_says_nothing(effect: object) -> None:
    """It is for people alone: what is no table of it is no error either."""
    assert optimisation_in_words(effect) == ""


def test_what_optimisations_change_is_told_by_output() -> None:
    """An output that they leave alone is not named."""
    outputs = [{"output": "y", "max_abs_diff": 0.25}, {"output": "z", "max_abs_diff": 0.0}]
    words = optimisation_in_words({"of": "the source model", "outputs": outputs})
    assert (
        words
        == "ONNX Runtime's optimisations alone change the answers of the source model: `y` by up to 0.25"
    )
