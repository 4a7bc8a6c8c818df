"""The tree of errors: its shape, its words, its way through JSON and pickle."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core import errors
from slipway_core.errors import (
    GateInconclusiveError,
    GateRefusedError,
    SlipwayError,
    SpecError,
    TransientError,
    UserError,
    all_errors,
)

_OWN = [error for error in all_errors() if error.__module__ == errors.__name__]
_MAYBE_TEXT = st.none() | st.text(max_size=30)


def test_docstring_draws_exactly_the_classes_there_are() -> None:
    """The tree in the docstring names every class once, under its parent."""
    drawn: dict[str, str] = {}
    branch = ""
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"(?P<indent>[ |]*)(?P<mark>[+-]) (?P<name>\w+Error)\b", line)
        if match and match["mark"] == "+":
            branch = match["name"]
            drawn[branch] = "SlipwayError"
        elif match:
            drawn[match["name"]] = branch
    actual = {error.__name__: error.__bases__[0].__name__ for error in _OWN if error is not SlipwayError}
    assert drawn == actual


def test_every_class_says_what_it_is_for() -> None:
    """Each class has a docstring of its own."""
    assert all(error.__dict__.get("__doc__") for error in _OWN)


def test_the_four_branches_do_not_overlap() -> None:
    """An error is a person's fault, a gate's refusal, a gate's doubt or a passing trouble, never two of these."""
    branches = (UserError, GateRefusedError, GateInconclusiveError, TransientError)
    for error in _OWN:
        assert sum(issubclass(error, branch) for branch in branches) == (error is not SlipwayError)


def test_text_reads_as_one_paragraph() -> None:
    """The text holds what, expected, found and remedy, each as a sentence, without doubled full stops."""
    error = SpecError("a.yaml has a fault.", expected="one thing.", found="another", remedy="Change it.")
    assert str(error) == "a.yaml has a fault. Expected one thing; found another. Remedy: Change it."


def test_text_leaves_out_what_is_not_known() -> None:
    """Parts that are not given leave no trace in the text."""
    assert str(SpecError("it broke")) == "it broke."
    assert str(SpecError("it broke", found="pieces")) == "it broke. Found pieces."


def test_the_short_form_does_not_say_twice_that_there_is_none() -> None:
    """What was found follows what was wrong, unless that was nothing."""
    assert SpecError("version 9 has no record", found="none").in_short() == "version 9 has no record"
    assert SpecError("a.yaml is cut.", found="3 bytes.").in_short() == "a.yaml is cut: 3 bytes"


@given(st.sampled_from(_OWN), st.text(min_size=1, max_size=30), _MAYBE_TEXT, _MAYBE_TEXT, _MAYBE_TEXT)
def test_dict_and_pickle_bring_back_the_same_error(
    kind: type[SlipwayError], what: str, expected: str | None, found: str | None, remedy: str | None
) -> None:
    """An error keeps its class and all its parts through a dict and through pickle."""
    error = kind(what, expected=expected, found=found, remedy=remedy)
    for copy in (SlipwayError.from_dict(error.to_dict()), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert type(copy) is kind
        assert copy.to_dict() == error.to_dict()
        assert str(copy) == str(error)


@pytest.mark.parametrize("value", [{}, {"kind": "NoSuchError"}, {"kind": None, "what": ""}])
def test_unknown_kinds_become_the_root(value: dict[str, object]) -> None:
    """A dict from elsewhere with an unknown kind or no text still gives an error that can be shown."""
    error = SlipwayError.from_dict(value)
    assert type(error) is SlipwayError
    assert str(error)
