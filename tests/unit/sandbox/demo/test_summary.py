"""The report for programs and the page for people."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from slipway_sandbox.demo.chapters import ChapterResult
from slipway_sandbox.demo.counts import Traffic
from slipway_sandbox.demo.summary import print_summary, report, timeline, write_report


def printed(results: list[ChapterResult], traffic: Traffic, *, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=110, color_system=None)
    print_summary(console, report(212.34, results, traffic), traffic, Path("report.json"))
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(output, str)
    return output


def test_the_report_says_what_the_records_and_the_clients_say(
    good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """Wall time, counts, and an entry for each release with its stages and its canary."""
    document = report(212.34, good_story, good_traffic)
    assert document["wall_s"] == 212.3
    assert document["traffic"] == {
        "requests": good_traffic.last.requests,
        "failed": 12,
        "failed_on_stable": 0,
    }
    assert [(entry["version"], entry["outcome"]) for entry in document["releases"]] == [
        (1, "promoted"),
        (2, "promoted"),
        (3, "rolled_back"),
        (4, "refused"),
    ]
    third = document["releases"][2]["canary"]
    assert third["steps"][0]["candidate_errors"] == 12
    assert third["bad_requests_before_rollback"] == 12
    assert third["seconds_from_first_bad_answer_to_weight_0"] == 18.0
    assert document["releases"][3]["refused_by"] == "validate"


def test_the_report_is_json_as_it_stands(
    good_story: list[ChapterResult], good_traffic: Traffic, tmp_path: Path
) -> None:
    """What is written can be read back, and nothing half-written stays beside it."""
    path = tmp_path / "demo" / "report.json"
    document = report(1.0, good_story, good_traffic)
    write_report(path, document)
    assert json.loads(path.read_text()) == document
    assert list(path.parent.iterdir()) == [path]


def test_a_release_without_a_record_is_left_out(
    good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """The report holds what is recorded and invents nothing."""
    nobody = ChapterResult(good_story[3].chapter, good_story[3].run, (), None)
    assert len(report(1.0, [*good_story[:3], nobody], good_traffic)["releases"]) == 3


def test_the_page_tells_the_whole_story(good_story: list[ChapterResult], good_traffic: Traffic) -> None:
    """Outcomes, verdicts, the rollback in seconds, what clients saw, and where the report lies."""
    page = printed(good_story, good_traffic, terminal=True)
    for expected in ("promoted", "rolled_back", "refused", "20 %", "12 bad answers", "18.0 s after the first",
                     "12 failed, 0 of them on the stable version", "report.json", "212 s in all"):  # fmt: skip
        assert expected in page


def test_the_page_is_plain_ascii_where_it_is_no_terminal(
    good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """A log file gets no box drawing and no shades."""
    assert printed(good_story, good_traffic, terminal=False).isascii()


def test_the_page_of_a_story_that_never_began(tmp_path: Path) -> None:
    """Nothing told and nothing counted still makes a page."""
    assert "No good answer." in printed([], Traffic(), terminal=False)


@pytest.mark.parametrize("plain", [True, False])
def test_the_timeline_has_a_line_a_version_and_columns_of_equal_time(
    plain: bool, good_traffic: Traffic
) -> None:
    """Each version's share is drawn when it answered; failures stand under their moment."""
    lines = timeline(good_traffic, plain=plain)
    versions = [line for line in lines if line.lstrip().startswith("version")]
    assert [line.split("|")[0].strip() for line in versions] == ["version  1", "version  2", "version  3"]
    assert {len(line) for line in versions} == {len(versions[0])}
    first, second, third = (line.split("|")[1] for line in versions)
    assert (bool(first.strip()), first[-1]) == (True, " ")
    assert (second[0], bool(second[-1].strip())) == (" ", True)
    assert 1 <= len(third.split()[0]) <= 10
    failures = next(line for line in lines if "failed" in line).split("|")[1]
    assert 1 <= failures.count("!") <= 10


def test_a_small_share_is_seen_in_the_timeline(build: Any) -> None:
    """One answer in a hundred is drawn, since that is what a canary is about."""
    from slipway_sandbox.demo.counts import Snapshot

    snapshots = [
        Snapshot(0.0, 0, 0, 0, {}, {"1": 0, "2": 0}, {}),
        Snapshot(1.0, 100, 0, 0, {}, {"1": 99, "2": 1}, {}),
    ]
    lines = timeline(Traffic(snapshots), plain=True)
    assert lines[1].split("|")[1].strip() != ""


def test_no_time_has_no_timeline() -> None:
    """Less than two snapshots cannot be drawn."""
    assert timeline(Traffic(), plain=True) == []
