"""The command line of the program for three libraries."""

from __future__ import annotations

import pytest

import convert_estimator

COMMAND = ["--source", "s3://b/m", "--golden", "s3://b/g", "--destination", "s3://b/d"]


@pytest.mark.parametrize(
    ("given", "says"),
    [([], "--library"), (["--library", "xgboost", "--trusted-type", "a.B"], "only for --library sklearn")],
)
def test_library_must_be_told(capsys: pytest.CaptureFixture[str], given: list[str], says: str) -> None:
    """Without a library, or with an option of another, nothing is done and the exit code is 2."""
    with pytest.raises(SystemExit) as ended:
        convert_estimator.arguments([*COMMAND, *given])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
