"""What a scorer is given travels as one archive, and comes out as it went in."""

from __future__ import annotations

import numpy as np
import pytest

from slipway_rules.scoring import FIGURE_NAME, Given

ROWS = np.arange(3)


def test_what_is_given_comes_out() -> None:
    """Inputs, labels and both versions' answers by name; a name may hold a slash itself."""
    given = Given({"x": ROWS, "a/b": ROWS}, ROWS, {"y": ROWS}, {"y": ROWS + 1})
    arrays = given.arrays()
    assert list(arrays) == ["input/x", "input/a/b", "label/label", "answer/y", "stable/y"]
    assert Given.of_arrays(arrays) == given


def test_labels_and_a_stable_version_may_be_missing() -> None:
    """None comes out as None, and no array stands for it."""
    given = Given({"x": ROWS}, None, {"y": ROWS}, None)
    assert list(given.arrays()) == ["input/x", "answer/y"]
    assert Given.of_arrays(given.arrays()) == given


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("f1", True),
        ("_x", True),
        ("1f", False),
        ("a-b", False),
        ("x" * 65, False),
        ("\N{GREEK SMALL LETTER PI}", False),
    ],
    ids=ascii,
)
def test_the_name_of_a_figure(name: str, is_one: bool) -> None:
    """Letters of ASCII, digits and `_`, as a release file can write it."""
    assert (FIGURE_NAME.fullmatch(name) is not None) is is_one
