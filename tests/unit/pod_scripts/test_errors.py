"""Why a run did not pass: the text, the exit code, and how it travels."""

from __future__ import annotations

import pickle

import pytest

from slipway_pod.errors import PodError, first_line, unexpected

ERROR = PodError("GoldenSetError", "No rows.", expected="some", found="none", remedy="add some")


def test_an_error_is_sentences() -> None:
    """What, expected, found and remedy are sentences; what is not there is left out."""
    assert str(ERROR) == "No rows. Expected: some. Found: none. Remedy: add some."
    assert str(PodError("UserError", "No rows")) == "No rows."


def test_an_error_travels_between_processes() -> None:
    """Nothing is lost on the way from a tool's process to the program's."""
    assert pickle.loads(pickle.dumps(ERROR)).to_json() == ERROR.to_json()  # noqa: S301


@pytest.mark.parametrize(
    ("kind", "code"),
    [("UserError", 3), ("ParityRefusedError", 4), ("StoreUnavailableError", 75), ("SlipwayError", 1)],
)
def test_exit_codes(kind: str, code: int) -> None:
    """Whose move it is shows in the exit code; a kind that is not listed is a bad input."""
    assert PodError(kind, "x").exit_code == code


def test_what_nobody_foresaw_is_told_and_traced(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names program and fault, the log has the traceback."""
    try:
        raise KeyError("absent")
    except KeyError as fault:
        error = unexpected(fault, "benchmark")
    assert (error.kind, error.what) == ("SlipwayError", "The benchmark failed in a way it does not know")
    assert error.found == "KeyError: 'absent'"
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "line"), [("\n  first \nsecond", "first"), ("", "ValueError"), ("x" * 400, "x" * 300)]
)
def test_the_first_line_that_says_something(text: str, line: str) -> None:
    """Empty lines are skipped, an error without text is called by its type, long lines are cut."""
    assert first_line(ValueError(text)) == line
