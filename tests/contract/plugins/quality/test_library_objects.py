"""What great-expectations leaves of a table: objects that its users know, and Data Docs that load nothing."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from slipway.quality.checkpoints import SuiteRun, object_name, run_suite
from slipway.quality.data_docs import data_docs
from slipway_core.spec.suites import expectations as taken
from slipway_core.spec.suites.named_files import parse_suite

pytestmark = pytest.mark.timeout(300)

HOSTILE = "<img src=http://elsewhere/x onerror=alert(1)>"
ASKED: list[dict[str, Any]] = [
    {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 4}, "meaning": "four rows"},
    {
        "type": "expect_column_quantile_values_to_be_between",
        "kwargs": {"column": "a", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[None, 1]]}},
        "meaning": "the median",
        "description": "<script>alert(1)</script> $column {{ 7 * 7 }}",
    },
    {
        "type": "expect_column_distinct_values_to_be_in_set",
        "kwargs": {"column": HOSTILE, "value_set": ["<b>x"]},
        "meaning": "known names",
        "policy": "warn",
    },
    {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "absent", "max_value": 1},
        "meaning": "absent",
    },
]
# An argument of each name, as a person would write it.
ARGUMENTS = {
    "column": "x",
    "column_A": "a",
    "column_B": "b",
    "value": 3,
    "value_set": [1, "a"],
    "column_set": ["a", "b"],
    "threshold": 2,
    "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[None, 1]]},
    "min_value": 0,
    "max_value": 1,
    "strict_min": True,
    "strict_max": False,
    "mostly": 0.9,
    "ties_okay": True,
    "double_sided": True,
    "or_equal": True,
    "exact_match": False,
}


@pytest.fixture(scope="module")
def ran() -> SuiteRun:
    """A suite over a table with hostile names and values."""
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], HOSTILE: ["<script>" + "x" * 5000, "b", 'c" onload=x', "d"]})
    return run_suite(frame, ASKED, object_name("digits", "golden"), "digits-2026-11-26")


def test_checkpoint_validation_definition_and_suite_have_one_stable_name(ran: SuiteRun) -> None:
    """The library's users find the three by name, and each refers to the next as the library has it."""
    name = "slipway.digits.golden"
    assert ran.checkpoint["name"] == ran.validation_definition["name"] == ran.suite["name"] == name
    (definition,) = ran.checkpoint["validation_definitions"]
    assert definition == {"name": name, "id": ran.validation_definition["id"]}
    assert ran.validation_definition["suite"] == {"name": name, "id": ran.suite["id"]}
    assert ran.document["meta"]["checkpoint_id"] == ran.checkpoint["id"]
    assert ran.document["meta"]["validation_id"] == ran.validation_definition["id"]
    assert ran.document["meta"]["run_id"]["run_name"] == "digits-2026-11-26"


def test_results_and_suite_are_read_by_the_library(ran: SuiteRun) -> None:
    """The JSON in the bucket is the library's own: it loads it, and counts the same."""
    import great_expectations as gx
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResultSchema

    loaded = ExpectationSuiteValidationResultSchema().load(json.loads(json.dumps(ran.document)))
    assert loaded.success is False
    assert loaded.statistics["successful_expectations"] == 1
    suite = gx.ExpectationSuite(**json.loads(json.dumps(ran.suite)))
    assert [one.expectation_type for one in suite.expectations] == [one["type"] for one in ASKED]
    assert [one.severity.value for one in suite.expectations] == [
        "critical",
        "critical",
        "warning",
        "critical",
    ]


def test_a_kept_suite_is_one_that_a_release_file_may_name(ran: SuiteRun) -> None:
    """What lies in the bucket can be put beside a release file again, with the same policies."""
    again = parse_suite(json.dumps(ran.suite), "golden_suite.json")
    assert [(one.type, one.decides) for one in again] == [
        (one["type"], one.get("policy", "fail")) for one in ASKED
    ]


def test_long_texts_and_lists_are_cut() -> None:
    """A column of many long texts does not make the evidence as large as the table."""
    frame = pd.DataFrame({"text": [f"{row} " + "x" * 5000 for row in range(2000)]})
    asked = {
        "type": "expect_column_distinct_values_to_be_in_set",
        "kwargs": {"column": "text", "value_set": ["a"]},
    }
    run = run_suite(frame, [{**asked, "meaning": "texts"}], object_name("digits", "golden"))
    assert run.results[0]["success"] is False
    assert len(json.dumps(run.document)) < 500_000


class _Elements(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links.update(str(value) for name, value in attrs if name in ("href", "src"))


def test_data_docs_load_nothing_and_run_nothing(ran: SuiteRun, caplog: pytest.LogCaptureFixture) -> None:
    """No page has a script, a picture or an address elsewhere, whatever columns and values are called."""
    pages = data_docs("digits", 2, [("golden", ran)])
    assert pages.keys() == {"index.html", "golden.html", "golden_suite.html"}
    for page in pages.values():
        elements = _Elements()
        elements.feed(page)
        assert not elements.tags & {
            "script",
            "img",
            "link",
            "iframe",
            "object",
            "form",
            "input",
            "button",
            "base",
        }
        assert not any(name.startswith("on") for name in elements.attributes)
        assert all(re.fullmatch(r"#[\w.-]+|(\.\./)?[a-z_]+\.(html|json)", link) for link in elements.links)
    assert "Must have exactly" in pages["golden.html"]
    assert "does not exist" in pages["golden.html"]
    assert "‹img src=http://elsewhere/x" in pages["golden.html"]
    assert not [one for one in caplog.records if "data docs rendering" in one.getMessage()]


@pytest.mark.parametrize("type_", sorted(taken._ARGUMENTS))
def test_each_type_is_taken_as_the_library_writes_it(type_: str) -> None:
    """A suite that the library's own classes made passes the check, with the fewest arguments and with all."""
    import great_expectations as gx

    needed, allowed = taken._ARGUMENTS[type_]
    for names in (needed | (allowed & {"min_value"}), needed | allowed):
        kwargs = {name: ARGUMENTS[name] for name in sorted(names)}
        suite = gx.ExpectationSuite(name="s", expectations=[{"type": type_, "kwargs": kwargs}])
        (one,) = parse_suite(json.dumps(suite.to_json_dict()), "s.json")
        assert one.type == type_
        # What is the library's default it does not write.
        assert needed <= one.kwargs.keys() <= kwargs.keys()


def test_nobody_is_talked_to_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a connection nor a file, in the home folder or where the task runs, also in threads."""
    asked_for: list[str] = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.getaddrinfo"):
            asked_for.append(f"{event} {arguments}")

    home, folder = tmp_path / "home", tmp_path / "task"
    home.mkdir()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GX_ANALYTICS_ENABLED", "True")
    monkeypatch.chdir(folder)
    sys.addaudithook(note)
    before = threading.active_count()
    run = run_suite(pd.DataFrame({"a": [1.0]}), ASKED[:1], object_name("digits", "golden"))
    data_docs("digits", 2, [("golden", run)])
    assert os.environ["GX_ANALYTICS_ENABLED"] == "False"
    assert threading.active_count() == before
    assert asked_for == []
    assert list(home.iterdir()) == list(folder.iterdir()) == []
