"""Examinations side by side: in their order, each with a limit, and an error of one is a line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from airflow.sdk.exceptions import AirflowNotFoundException

from slipway.doctor.examination import EXAMINATIONS, Examination, chosen_examinations
from slipway.doctor.examining import examine
from slipway.doctor.installation import Installation, Permission
from slipway_core.doctor.line import Line, Status
from slipway_core.errors import ClusterUnavailableError, SpecError
from slipway_core.kind_registry import UnknownKindError


class Fake(Examination):
    """Yields a line, then does what a test wants."""

    name: ClassVar[str] = "fake"
    place: ClassVar[int] = 1
    why: ClassVar[str] = "a test"

    def __init__(self, act: object = None, limit_s: float = 30.0) -> None:
        self.act = act
        self.limit_s = limit_s  # type: ignore[misc]

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield the first line."""
        yield self.ok("first", "found")
        if isinstance(self.act, threading.Event):
            self.act.wait(60)
        elif isinstance(self.act, Exception):
            raise self.act


class Many(Fake):
    """Yields so many lines, the last of which has failed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield the lines."""
        for number in range(self.number):
            status = Status.FAILED if number == self.number - 1 else Status.OK
            yield self.line(f"line {number}", status, "found")


class Writing(Fake):
    """Does what must be permitted."""

    needs: ClassVar[Permission | None] = Permission.WRITE


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """Nothing that is asked."""
    return Installation("models", tmp_path)


def test_one_that_hangs_is_a_line_and_the_rest_goes_on(installation: Installation) -> None:
    """What it had found counts, and no other waits for it."""
    never = threading.Event()
    shown: list[Line] = []
    report = examine(installation, [Fake(never, 0.2), Fake(), Fake()], shown.append, at_once=1)
    never.set()
    assert [one.status for one in report.lines] == [Status.OK, Status.UNKNOWN, Status.OK, Status.OK]
    assert "given up" in report.lines[1].found
    assert len(shown) == 4


@pytest.mark.parametrize(
    ("error", "status", "found"),
    [
        (SpecError("it is wrong", found="this"), Status.FAILED, "it is wrong: this"),
        (ClusterUnavailableError("no answer"), Status.UNKNOWN, "no answer"),
        (AirflowNotFoundException("there is no connection"), Status.UNKNOWN, "there is no connection"),
        (RuntimeError("http://name:secret@host"), Status.UNKNOWN, "it ended with RuntimeError"),
    ],
    ids=["user", "transient", "connection", "other"],
)
def test_an_error_is_a_line(installation: Installation, error: Exception, status: Status, found: str) -> None:
    """What a person must change has failed, all else is unknown; a text that nobody has read is not shown."""
    (first, last) = examine(installation, [Fake(error)]).lines
    assert (first.status, last.status) == (Status.OK, status)
    assert last.found.startswith(found)
    assert "secret" not in last.found


def test_one_without_a_line_is_unknown(installation: Installation) -> None:
    """An examination that says nothing has found nothing to be well."""
    (line,) = examine(installation, [Many(0)]).lines
    assert (line.status, "nothing is known" in line.found) == (Status.UNKNOWN, True)


def test_a_failure_behind_too_many_lines_is_never_ok(installation: Installation) -> None:
    """What is left out may have failed: a line says so."""
    report = examine(installation, [Many(250)])
    assert [one.status for one in report.lines] == [Status.OK] * 200 + [Status.UNKNOWN]
    assert "first 200 lines" in report.lines[-1].found
    assert int(report.code) == 2


def test_what_must_be_permitted_is_skipped_with_the_command(installation: Installation) -> None:
    """Skipped is not ok."""
    (line,) = examine(installation, [Writing()]).lines
    assert (line.status, line.remedy) == (Status.SKIPPED, "slipway doctor --only fake --write")
    installation.permitted = frozenset({Permission.WRITE})
    (line,) = examine(installation, [Writing()]).lines
    assert line.status is Status.OK


def test_every_examination_of_the_folder_is_found() -> None:
    """In the order of their places, each with a reason."""
    found = chosen_examinations()
    assert [one.name for one in found] == [one.name for one in sorted(found, key=lambda one: one.place)]
    assert {one.name for one in found} == set(EXAMINATIONS.built_in())
    assert all(one.why and 0 < one.limit_s <= 600 for one in found)


def test_one_that_is_not_known_is_named() -> None:
    """With those that are."""
    with pytest.raises(UnknownKindError, match="connections"):
        chosen_examinations(("nothing",))
