"""The report of `slipway doctor`: which exit code its lines make, and how it is read back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slipway_core.doctor.line import Line, Status
from slipway_core.doctor.report import DoctorReport, code_of, summary
from slipway_core.errors import UserError

AT = datetime(2026, 11, 26, tzinfo=UTC)


def lines(*statuses: Status) -> list[Line]:
    """Return a line of each status."""
    return [Line(examination="rights", what=str(one), status=one) for one in statuses]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ((Status.OK,), 0),
        ((Status.OK, Status.WARNING, Status.SKIPPED), 0),
        ((Status.OK, Status.UNKNOWN), 2),
        ((Status.UNKNOWN, Status.FAILED), 1),
        ((), 2),
    ],
    ids=["ok", "warning", "unknown", "failed", "nothing"],
)
def test_what_could_not_be_examined_is_never_ok(statuses: tuple[Status, ...], code: int) -> None:
    """No line at all is nothing examined; what failed goes before what is unknown."""
    assert code_of(lines(*statuses)) == code


def test_the_summary_begins_with_what_needs_a_person() -> None:
    """Statuses without a line are left out."""
    assert summary(lines(Status.OK, Status.OK, Status.FAILED, Status.UNKNOWN)) == "1 failed, 1 unknown, 2 ok"


def test_a_report_is_read_back_as_it_was_written() -> None:
    """From the bytes that lie in the bucket."""
    report = DoctorReport(began_at=AT, ended_at=AT, where="here", lines=tuple(lines(Status.WARNING)))
    assert DoctorReport.from_bytes(report.to_bytes(), "the report") == report


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"lines": []}', b'{"began_at": 1, "lines": "x"}', b"\xff"],
    ids=["empty", "list", "parts", "types", "bytes"],
)
def test_what_is_no_report_is_refused(content: bytes) -> None:
    """Whoever may write the bucket decides nothing on the page."""
    with pytest.raises(UserError, match="report of slipway doctor"):
        DoctorReport.from_bytes(content, "the report")


def test_a_long_text_is_cut() -> None:
    """A line stays a line, whatever a server answers."""
    assert len(Line(examination="bucket", what="x", status=Status.OK, found="y" * 5000).found) == 1000
