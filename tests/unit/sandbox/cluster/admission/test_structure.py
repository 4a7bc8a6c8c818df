"""Times with six digits of a second: what is one, and Go's words for what is none."""

from __future__ import annotations

import pytest

from slipway_sandbox.cluster.admission.structure import time_problem


@pytest.mark.parametrize(
    "text",
    ["2026-11-20T10:00:00.000000Z", "2026-11-20T10:00:00.123456+01:00", "2026-11-20T10:00:00.123456-11:30"],
)
def test_a_time_with_six_digits_of_a_second_is_taken(text: str) -> None:
    """In UTC, or with an offset."""
    assert time_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("yesterday", 'cannot parse "yesterday" as "2006"'),
        ("2026-11-20 10:00:00.000000Z", 'cannot parse " 10:00:00.000000Z" as "T"'),
        ("2026-11-20T10:00:00Z", 'cannot parse "Z" as ".000000"'),
        ("2026-11-20T10:00:00.5Z", 'cannot parse ".5Z" as ".000000"'),
        ("2026-11-20T10:00:00.000000", 'cannot parse "" as "Z07:00"'),
        ("2026-11-20T10:00:00.000000Zulu", 'extra text: "ulu"'),
    ],
)
def test_a_time_that_is_none_is_told_as_go_does(text: str, words: str) -> None:
    """The message names the text, the part that could not be read, and what was expected there."""
    problem = time_problem(text)
    assert problem.startswith(f'parsing time "{text}"')
    assert problem.endswith(words)
