"""model_revalidation by Airflow's scheduler: what was changed behind everybody's back is found."""

from __future__ import annotations

import pytest

from tests.support.e2e.drift_story import DriftStory
from tests.support.e2e.endings import assert_ended

pytestmark = pytest.mark.nightly


def test_both_changes_are_found(drift: DriftStory) -> None:
    """A byte in the bucket and a server's configuration differ; what the model answers is as at its release."""
    assert_ended(drift.first, "promoted")
    assert (drift.report.standing, drift.report.version) == ("checked", 1)
    found = {one.check: one.outcome for one in drift.report.checks}
    assert found == {
        "live": "passed",
        "published": "differs",
        "configuration": "differs",
        "signature": "passed",
        "answers": "passed",
        "latency": "no_reference",
        "inputs": "left_out",
    }


def test_findings_are_open_and_name_what_differs(drift: DriftStory) -> None:
    """Each with the run that has opened it."""
    published, configuration = drift.findings["1-published"], drift.findings["1-configuration"]
    assert published.is_open
    assert configuration.is_open
    assert published.opened_run == configuration.opened_run == drift.looked.run_id
    assert drift.changed_key in published.details[0]
    assert "parameters" in configuration.summary


def test_the_run_is_red_and_its_pages_say_why(drift: DriftStory) -> None:
    """The run's page links to the model's, and both name the findings."""
    assert drift.looked.state == "failed"
    for page in (drift.page, drift.run_page):
        assert "1-published" in page
        assert "1-configuration" in page
    assert f'href="models/{drift.report.model}.html"' in drift.run_page
