"""Suites of expectations: what a release file may add, and the files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import (
    ReleaseSpec,
    apply_overrides,
    load_model_spec,
    load_release_spec,
    parse_release_spec,
)
from slipway_core.spec.suites.expectations import SUITE_LIMIT
from slipway_core.spec.suites.named_files import FILE_LIMIT_BYTES, parse_suite

MEAN: dict[str, Any] = {
    "type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "duplicate", "max_value": 0.1},
}
SETS = {"type": "expect_column_values_to_be_in_set"}
FILE = "model: digits\nsource: {format: onnx}\ngolden: {suite: suite.json}\n"


def suite(*expectations: dict[str, Any]) -> str:
    """Return a suite as great-expectations writes it."""
    return json.dumps(
        {"name": "golden", "id": None, "expectations": list(expectations), "meta": {"v": "1"}, "notes": None}
    )


def loaded(folder: Path, text: str = FILE, **files: str) -> ReleaseSpec:
    """Return a release file read from a folder, with files beside it."""
    (folder / "digits.yaml").write_text(text)
    for name, content in files.items():
        (folder / name.replace("_json", ".json").replace("_py", ".py")).write_text(content)
    return load_release_spec(folder / "digits.yaml")


def test_expectations_of_file_and_suite_are_taken_together(tmp_path: Path) -> None:
    """What the release file says comes first, then the suite's; overrides keep the suite as it was read."""
    text = FILE.replace("{suite", f"{{expectations: [{json.dumps(MEAN)}], suite")
    spec = loaded(tmp_path, text, suite_json=suite({**MEAN, "severity": "warning"}))
    (tmp_path / "suite.json").write_text("changed since")
    for one in (spec, apply_overrides(spec, {"description": "x"}, "the form")):
        assert [each.decides for each in one.expectations_of_golden()] == ["fail", "warn"]
    assert spec.expectations_of_answers() == ()


def test_the_policy_is_our_key_then_meta_then_severity() -> None:
    """Whichever way the library's users say it, it is heard."""
    policies = [
        each.decides
        for each in parse_suite(
            suite(
                MEAN,
                {**MEAN, "severity": "info"},
                {**MEAN, "meta": {"policy": "warn"}},
                {**MEAN, "policy": "fail", "meta": {"policy": "warn"}},
            ),
            "suite.json",
        )
    ]
    assert policies == ["fail", "warn", "warn", "fail"]


def test_words_are_made_of_type_and_arguments() -> None:
    """An expectation without a description is told all the same."""
    (one,) = parse_suite(suite(MEAN), "suite.json")
    assert one.meaning == "`duplicate` mean to be between: max_value 0.1"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "recursion"),
        (suite(), "no expectation"),
        (suite(*[MEAN] * (SUITE_LIMIT + 1)), f"at most {SUITE_LIMIT}"),
        (suite({**MEAN, "type": "expect_column_values_to_match_regex"}), "is not a supported expectation"),
        (suite({**MEAN, "type": "expect_column_values_to_match_regex"}), "can run forever"),
        (suite({**MEAN, "type": "expect_column_values_to_not_match_like_pattern_list"}), "needs a database"),
        (suite({**MEAN, "type": "unexpected_rows_expectation"}), "runs SQL"),
        (suite({**MEAN, "type": "expect_query_results_to_match_comparison"}), "runs SQL"),
        (suite({**MEAN, "type": "expect_table_row_count_to_equal_other_table"}), "runs SQL"),
        (suite({**MEAN, "type": "expect_column_values_to_match_json_schema"}), "by a parser"),
        (suite({**MEAN, "type": "ExpectMyOwn"}), "classes of your own are not loaded; known are"),
        (
            suite({**MEAN, "type": "expect_colum_mean_to_be_between"}),
            "mean `expect_column_mean_to_be_between`?",
        ),
        (suite({"expectation_type": MEAN["type"], "kwargs": MEAN["kwargs"]}), "before 1.0"),
        (
            suite(
                {
                    "type": "expect_column_value_z_scores_to_be_less_than",
                    "kwargs": {"column": "x", "threshold": 3},
                }
            ),
            "`double_sided` is missing",
        ),
        (
            suite({**SETS, "type": "expect_table_columns_to_match_set", "kwargs": {"column_set": [1]}}),
            "names of",
        ),
        (suite({**MEAN, "kwargs": {"column": "x"}}), "needs `min_value` or `max_value`"),
        (suite({**MEAN, "kwargs": {"max_value": 1}}), "`column` is missing"),
        (
            suite({**MEAN, "kwargs": {**MEAN["kwargs"], "row_condition": "@x"}}),
            "`row_condition` is not taken",
        ),
        (suite({**MEAN, "kwargs": {"column": "x", "max_value": {"$PARAMETER": "x"}}}), "must be a number"),
        (suite({**MEAN, "kwargs": {"column": "x", "max_value": float("nan")}}), "must be a number"),
        (suite({**MEAN, "kwargs": {"column": ["x"], "max_value": 1}}), "must be a column's name"),
        (suite({**MEAN, "kwargs": {"column": "x", "max_value": 10**400}}), "must be a number"),
        (suite({**SETS, "kwargs": {"column": "x", "value_set": [10**400]}}), "1 to 1000 numbers or texts"),
        (suite({**SETS, "kwargs": {"column": "x", "value_set": [1], "mostly": 2}}), "must be from 0 to 1"),
        (suite({**MEAN, "windows": []}), "extra"),
        (suite({**MEAN, "meta": {"policy": "ignore"}}), "must be fail or warn"),
    ],
)
def test_a_suite_that_cannot_be_used_is_refused(content: str, found: str) -> None:
    """Whatever stands in the file, the error names the first fault, and nothing of it is evaluated."""
    with pytest.raises(SpecError, match=r"suite\.json is not a valid suite") as caught:
        parse_suite(content, "suite.json")
    assert found.lower() in (caught.value.found or "").lower()


@pytest.mark.parametrize(
    ("text", "content", "told"),
    [
        (FILE, None, "No such file"),
        (FILE, "x" * (FILE_LIMIT_BYTES + 1), "more than"),
        (FILE.replace("suite.json", "suite.yaml"), "", r"suite\.yaml"),
        (FILE.replace("suite.json", "'../suite.json'"), "", "plain name"),
        (f"{FILE}files: {{suite.json: '{{}}'}}\n", suite(MEAN), "not to be written"),
    ],
)
def test_a_file_beside_the_release_file_must_be_there(
    tmp_path: Path, text: str, content: str | None, told: str
) -> None:
    """Lint and admission say which file is not there, too large, or none that may be named."""
    with pytest.raises(SpecError) as caught:
        loaded(tmp_path, text, **({} if content is None else {"suite_json": content}))
    assert told.replace("\\", "") in str(caught.value)


def test_a_way_back_does_not_depend_on_a_gates_files(tmp_path: Path) -> None:
    """Whoever needs no gate reads the release file all the same; the gate, and a release that begins, insist."""
    (tmp_path / "digits.yaml").write_text(FILE)
    spec = load_model_spec(tmp_path, "digits")
    with pytest.raises(SpecError, match="not read with it"):
        spec.expectations_of_golden()
    with pytest.raises(SpecError, match="No such file"):
        load_model_spec(tmp_path, "digits", insists=True)


def test_a_release_file_that_was_read_without_its_suite_does_not_pass_for_one_that_expects_nothing() -> None:
    """Whoever asks for the expectations then is told so."""
    with pytest.raises(SpecError, match=r"names suite\.json, which was not read with it"):
        parse_release_spec(FILE, "digits.yaml").expectations_of_golden()
