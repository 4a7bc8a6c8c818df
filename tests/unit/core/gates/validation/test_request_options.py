"""How a model wants to be asked: optional inputs, several responses, and how they become one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipway_core.errors import SpecError, ValidationRefusedError
from slipway_core.gates.validation.kinds.regression import RegressionValidation
from slipway_core.gates.validation.kinds.text import TextValidation
from slipway_core.gates.validation.request_options import (
    is_decoupled,
    optional_inputs,
)

_CONFIG = {"input": [{"name": "prompt"}, {"name": "seed", "optional": True}]}


def pieces(*texts: str) -> list[np.ndarray[Any, Any]]:
    """Responses with a text each."""
    return [np.array([[text.encode()]], dtype=object) for text in texts]


def test_an_ensemble_is_decoupled_when_a_member_is() -> None:
    """The policy may stand in any of the configurations; none is none."""
    coupled = {"model_transaction_policy": {"decoupled": False}}
    assert not is_decoupled([{}, coupled])
    assert is_decoupled([{}, coupled, {"model_transaction_policy": {"decoupled": True}}])


def test_the_configuration_says_which_inputs_may_be_left_out() -> None:
    """Only those that are called optional."""
    assert optional_inputs(_CONFIG) == {"seed"}


def test_pieces_of_a_text_are_joined_or_the_last_one_is_taken() -> None:
    """`responses` says whether a response is a piece or all so far; no response is no answer."""
    responses = [pieces("It", " is"), pieces(), [np.array([], dtype=object)]]
    assert TextValidation().gather(responses).tolist() == [b"It is", None, b""]
    assert TextValidation(responses="last").gather([pieces("It", "It is")]).tolist() == [b"It is"]


def test_a_response_with_several_texts_is_refused() -> None:
    """Which of several texts would be the answer, nobody knows."""
    with pytest.raises(SpecError, match="one text a response"):
        TextValidation().gather([[np.array([[b"a", b"b"]], dtype=object)]])


def test_of_other_kinds_the_last_response_counts() -> None:
    """A decoupled regressor's last responses are its answers, and each request must have one."""
    validation = RegressionValidation(mae_max=1)
    rows = [np.array([[1.0]]), np.array([[2.0]])]
    assert validation.gather([rows, rows[:1]]).tolist() == [[2.0], [1.0]]
    with pytest.raises(ValidationRefusedError, match=r"none to 1 of 2, the first of them number 1"):
        validation.gather([rows, []])
