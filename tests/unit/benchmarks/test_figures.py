"""The rows of `make bench`, and which of them are taken."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.figure import Figure, MeasureError, median_figure
from benchmarks.figures import FIGURES, selected
from benchmarks.results import present_commit


def test_a_figure_without_a_peer_has_null_in_its_place() -> None:
    """The entry has all six fields, those of the peer null."""
    assert Figure("demo_s", 201.23456, "s").to_dict() == {
        "figure": "demo_s",
        "value": 201.235,
        "unit": "s",
        "peer": None,
        "peer_value": None,
        "ratio": None,
    }


def test_a_figure_is_set_in_relation_to_its_peer() -> None:
    """The ratio is the value over the peer's."""
    entry = Figure("overhead_per_task_s", 1.5, "s", "empty chain", 1.0).to_dict()
    assert (entry["peer"], entry["peer_value"], entry["ratio"]) == ("empty chain", 1.0, 1.5)


def test_a_peer_of_zero_has_no_ratio() -> None:
    """Nothing is divided by zero."""
    assert Figure("x", 1.0, "s", "peer", 0.0).ratio is None


def test_a_row_names_figure_value_and_unit() -> None:
    """One line a figure, with its peer where it has one."""
    assert Figure("idle_mib", 1024.0, "MiB").row().split() == ["idle_mib", "1024.000", "MiB"]
    assert "empty chain: 1.000 s  ratio 1.50" in Figure("o", 1.5, "s", "empty chain", 1.0).row()


def test_a_median_says_how_far_the_repeats_lie_apart() -> None:
    """The note is in the line for people, and not in the entry."""
    figure = median_figure("rollback_s", [4.0, 6.0, 4.5], "s")
    assert figure.value == 4.5
    assert figure.row().endswith("4.500 s        (median of 3, 4 to 6)")
    assert len(figure.to_dict()) == 6


def test_all_figures_are_taken_unless_some_are_named() -> None:
    """An empty selection means all, a selection keeps the program's order."""
    assert selected("") == list(FIGURES)
    assert selected("demo_s, dag_parse_s,") == ["dag_parse_s", "demo_s"]


def test_an_unknown_figure_is_named_with_those_there_are() -> None:
    """A slip in ONLY measures nothing and says what could be meant."""
    with pytest.raises(ValueError, match=r"No such figure: demo\..*demo_s"):
        selected("demo")


@pytest.fixture
def two_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that can be taken and one that cannot."""

    def broken() -> Figure:
        raise MeasureError("the server was away")

    figures = {"good_s": lambda: Figure("good_s", 1.0, "s"), "broken_s": broken}
    monkeypatch.setattr(program, "FIGURES", figures)
    monkeypatch.setattr("benchmarks.figures.FIGURES", figures)
    monkeypatch.delenv("ONLY", raising=False)


@pytest.mark.usefixtures("two_figures")
def test_one_figure_that_fails_does_not_take_the_others_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What could be measured is printed and written; the exit code says that something could not."""
    path = tmp_path / "results.json"
    assert program.main(["--results", str(path)]) == 1
    assert [entry["figure"] for entry in json.loads(path.read_text())] == ["good_s"]
    printed = capsys.readouterr()
    assert printed.out.startswith("good_s")
    assert "broken_s" in printed.err
    assert "the server was away" in printed.err


@pytest.mark.usefixtures("two_figures")
def test_figures_are_chosen_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make bench ONLY=…` reaches the program by its environment."""
    monkeypatch.setenv("ONLY", "good_s")
    assert program.main(["--results", str(tmp_path / "results.json")]) == 0


@pytest.mark.usefixtures("two_figures")
def test_an_unknown_name_is_wrong_usage(tmp_path: Path) -> None:
    """Exit code 2, and nothing is written."""
    assert program.main(["--only", "x", "--results", str(tmp_path / "results.json")]) == 2
    assert not (tmp_path / "results.json").exists()


@pytest.mark.usefixtures("two_figures")
def test_a_row_that_a_run_did_not_take_stays(tmp_path: Path) -> None:
    """A run with ONLY leaves the other rows as they were, with their date and commit."""
    path = tmp_path / "results.json"
    earlier = {
        "figure": "broken_s",
        "value": 2.0,
        "taken_at": "2026-01-02T03:04:05+00:00",
        "commit": "abc1234",
    }
    path.write_text(json.dumps([earlier]))
    assert program.main(["--only", "good_s", "--results", str(path)]) == 0
    good, kept = json.loads(path.read_text())
    assert kept == earlier
    assert good["figure"] == "good_s"
    assert datetime.now(UTC) - datetime.fromisoformat(good["taken_at"]) < timedelta(minutes=1)
    assert good["commit"] == present_commit()


@pytest.mark.usefixtures("two_figures")
def test_a_figure_that_could_not_be_taken_keeps_its_earlier_row(tmp_path: Path) -> None:
    """A failure does not take away what was measured before."""
    path = tmp_path / "results.json"
    earlier = {
        "figure": "broken_s",
        "value": 2.0,
        "taken_at": "2026-01-02T03:04:05+00:00",
        "commit": "abc1234",
    }
    path.write_text(json.dumps([earlier]))
    assert program.main(["--results", str(path)]) == 1
    assert json.loads(path.read_text())[1] == earlier
