"""The audit as files: a cell that a spreadsheet would compute is text."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pytest

from slipway.web.audit.export import COLUMNS, to_csv, to_json_lines
from slipway_core.read_model.person_acts import PersonAct

AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def act(reason: str) -> PersonAct:
    return PersonAct(at=AT, by="mira", act="rejected", model="digits", version=3, reason=reason)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_no_cell_is_a_formula(text: str) -> None:
    """It gets an apostrophe in front, which spreadsheets take for text."""
    (_, row) = csv.reader(io.StringIO(to_csv([act(text)]), newline=""))
    assert row[COLUMNS.index("reason")] == f"'{text}"


def test_quotes_commas_and_lines_stay_within_their_cell() -> None:
    """Whatever a person has written as a reason."""
    text = 'he said "no", then\nleft'
    rows = list(csv.reader(io.StringIO(to_csv([act(text)]), newline="")))
    assert rows[0] == list(COLUMNS)
    assert dict(zip(COLUMNS, rows[1], strict=True)) == {
        "at": "2026-11-22T12:00:00Z",
        "by": "mira",
        "act": "rejected",
        "model": "digits",
        "version": "3",
        "reason": text,
        "agreed_by": "",
        "run": "",
        "source": "",
    }


def test_each_line_is_a_document() -> None:
    """One act, one line."""
    lines = to_json_lines([act("one"), act("two\nlines")]).splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["one", "two\nlines"]
