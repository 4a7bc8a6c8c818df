"""`results.json`: what a run puts into it, and what it leaves there."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from benchmarks.figure import Figure
from benchmarks.results import Taken, present_commit, write_results

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
ORDER = ("a_s", "b_s", "c_s")


def taken(name: str, value: float, commit: str | None = "abc1234") -> Taken:
    return Taken(Figure(name, value, "s"), AT, commit)


def test_results_are_a_list_of_rows(tmp_path: Path) -> None:
    """`results.json` can be read back in the figures' order, and nothing half-written stays beside it."""
    path = tmp_path / "bench" / "results.json"
    write_results(path, [taken("b_s", 2.0), taken("a_s", 1.0)], ORDER)
    assert [row["figure"] for row in json.loads(path.read_text())] == ["a_s", "b_s"]
    assert list(path.parent.iterdir()) == [path]


def test_a_row_tells_when_and_of_what_it_was_taken() -> None:
    """Beside the figure's own fields a row has the time, in UTC and whole seconds, and the commit."""
    here = AT.astimezone(timezone(timedelta(hours=5)))
    row = Taken(Figure("a_s", 1.0, "s"), here, "abc1234-dirty").to_row()
    assert (row["figure"], row["value"]) == ("a_s", 1.0)
    assert (row["taken_at"], row["commit"]) == ("2026-01-02T03:04:05+00:00", "abc1234-dirty")


def test_a_new_row_replaces_the_earlier_one_of_its_figure_alone(tmp_path: Path) -> None:
    """What was not taken again stays as it was."""
    path = tmp_path / "results.json"
    write_results(path, [taken("a_s", 1.0, "old"), taken("b_s", 2.0, "old")], ORDER)
    write_results(path, [taken("b_s", 3.0, "new"), taken("c_s", 4.0, "new")], ORDER)
    rows = json.loads(path.read_text())
    assert [(row["figure"], row["value"], row["commit"]) for row in rows] == [
        ("a_s", 1.0, "old"),
        ("b_s", 3.0, "new"),
        ("c_s", 4.0, "new"),
    ]


def test_a_row_of_a_figure_that_is_no_more_goes(tmp_path: Path) -> None:
    """Nobody could measure it again."""
    path = tmp_path / "results.json"
    write_results(path, [taken("a_s", 1.0), taken("b_s", 2.0)], ORDER)
    write_results(path, [], ("b_s",))
    assert [row["figure"] for row in json.loads(path.read_text())] == ["b_s"]


@pytest.mark.parametrize("content", ["", "{", "null", '{"figure": "a_s"}', "[1]"])
def test_a_file_that_holds_no_rows_is_begun_anew(content: str, tmp_path: Path) -> None:
    """What cannot be read does not keep a figure from being written."""
    path = tmp_path / "results.json"
    path.write_text(content)
    write_results(path, [taken("a_s", 1.0)], ORDER)
    assert [row["figure"] for row in json.loads(path.read_text())] == ["a_s"]


def test_the_commit_is_marked_where_files_differ_from_it(tmp_path: Path) -> None:
    """A changed file, and one that git does not know, both mean that the commit alone was not measured."""
    assert present_commit(tmp_path) is None

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    head = git("rev-parse", "--short", "HEAD")
    assert present_commit(tmp_path) == head
    (tmp_path / "other").write_text("two")
    assert present_commit(tmp_path) == f"{head}-dirty"
    (tmp_path / "other").unlink()
    (tmp_path / "file").write_text("three")
    assert present_commit(tmp_path) == f"{head}-dirty"
