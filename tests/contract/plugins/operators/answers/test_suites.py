"""Validation runs the release file's suites in great-expectations, over the golden set and over the answers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway_core.errors import ValidationRefusedError
from slipway_core.reports.data_docs.page import FOLDER
from tests.support.release.regressor import rent
from tests.support.release.staged_answers import RENT

GOLDEN = json.dumps(
    {"type": "expect_column_max_to_be_between", "kwargs": {"column": "label", "max_value": 30}}
)
SLOW = json.dumps(
    {
        "type": "expect_column_max_to_be_between",
        "kwargs": {"column": "latency_ms", "max_value": 0},
        "severity": "warning",
        "description": "no request took any time",
    }
)

pytestmark = pytest.mark.timeout(600)


def test_the_release_files_suites_are_run_and_kept(store: ModelStoreHook, hook: TritonHook) -> None:
    """Labels out of range fail the version, slow answers warn; the library's own results are kept as evidence."""
    rent(store, 1, slope=2.0)
    text = RENT.replace("validation: {", f"validation: {{expectations: [{SLOW}], ")
    text += f"golden: {{slices: [side], expectations: [{GOLDEN}]}}\n"
    side = np.array(["north", "south"] * 10)
    release = rent(store, 2, slope=2.0, stable=1, text=text, side=side)
    with pytest.raises(ValidationRefusedError, match="golden set: `label` max to be between"):
        release.prepare().load().validate()
    report = release.report
    assert report["outcome"] == "fail"
    assert any(warning.startswith("answers: no request took any time") for warning in report["warnings"])
    assert {(one["part"], one["figure"]) for one in report["slices"]} == {
        ("north", "agreement"),
        ("south", "agreement"),
    }
    for place, met in (("golden", 1), ("answers", 0)):
        document = store.read_json(f"{release.release_run.evidence_prefix}great_expectations/{place}.json")
        assert document is not None
        assert document["statistics"]["successful_expectations"] >= met
        assert document["meta"]["great_expectations_version"]
    prefix = f"{release.release_run.evidence_prefix}{FOLDER}"
    left = {one.key.removeprefix(prefix): one.size_bytes for one in store.entries(prefix)}
    tables = ("golden", "answers", "validation")
    files = {
        f"{table}{kind}" for table in tables for kind in (".json", ".html", "_suite.json", "_suite.html")
    }
    assert left.keys() == {*files, "index.html", "checkpoints.json"}
    assert sum(left.values()) < 1 << 20
    kept = store.read_json(f"{prefix}checkpoints.json")
    assert kept is not None
    assert [one["name"] for one in kept["checkpoints"]] == [f"slipway.rent.{table}" for table in tables]
    assert "great_expectations/index.html" in release.page
    assert "The golden set itself" in release.page
    assert "found 40" in release.page
