"""Text of a server on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.cli.plain import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[31mred", "[2J[31mred"),
        ("bell\x07", "bell"),
        ("title\x1b]0;owned\x07", "title]0;owned"),
        ("left\u202eright", "leftright"),
        ("one\r\ntwo\tthree", "one two three"),
        ("\x9b31mcsi", "31mcsi"),
        ("Größe ✔ 20 %", "Größe ✔ 20 %"),
    ],
)
def test_what_a_terminal_would_obey_is_left_out(text: str, shown: str) -> None:
    """Escapes, bells and changes of direction go; letters, signs and spaces stay."""
    assert plain(text) == shown


def test_ends_of_lines_stay_where_they_are_wanted() -> None:
    """A log keeps its lines."""
    assert plain("one\ntwo\x1b[1m", lines=True) == "one\ntwo[1m"


@given(st.text())
def test_no_control_character_ever_comes_through(text: str) -> None:
    """Whatever the text, no character below the space is left but the space itself."""
    assert all(character >= " " and not "\x7f" <= character <= "\x9f" for character in plain(text))
