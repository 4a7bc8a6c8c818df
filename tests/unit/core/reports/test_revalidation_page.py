"""The pages of model_revalidation: an outcome for each check, and no pass where nobody could look."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from slipway_core.operations.revalidation.findings import settled
from slipway_core.operations.revalidation.report import (
    CheckResult,
    ModelReport,
    RunReport,
    could_not_check,
    differs,
    left_out,
    no_reference,
    passed,
)
from slipway_core.reports.revalidation_page import render_model_html, render_run_html, verdict_of

AT = datetime(2026, 11, 22, 5, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script>"


def report(*checks: CheckResult, **fields: Any) -> ModelReport:
    plain = {"run": "r", "model": "digits", "at": AT, "standing": "checked", "version": 3, "checks": checks}
    return ModelReport.model_validate({**plain, **fields})


@pytest.mark.parametrize(
    ("checks", "words", "is_as_released"),
    [
        ((passed("published", "well"), left_out("answers", "decoupled")), "✓ as released", True),
        (
            (passed("published", "well"), no_reference("answers", "none")),
            "as far as there is a reference",
            False,
        ),
        ((could_not_check("answers", "away"), passed("published", "well")), "✗ could not check", False),
        ((could_not_check("answers", "away"), differs("published", "bad", ["x"])), "✗ differs", False),
    ],
)
def test_the_worst_of_the_checks_is_the_verdict(
    checks: tuple[CheckResult, ...], words: str, is_as_released: bool
) -> None:
    """Only what was compared and is the same is as released."""
    one = report(*checks)
    assert words in verdict_of(one).words
    assert one.is_as_released is is_as_released
    assert words in render_model_html(one, [])


@pytest.mark.parametrize("standing", ["in_flight", "nothing_live", "could_not_check", "not_enabled"])
def test_a_model_that_was_not_checked_is_never_as_released(standing: str) -> None:
    """The page says why."""
    one = report(standing=standing, why="a canary is under way", version=None)
    assert not one.is_as_released
    page = render_model_html(one, [])
    assert "a canary is under way" in page
    assert "✓" not in page


def test_pages_show_findings_and_escape_what_others_wrote() -> None:
    """An open finding is on the model's page and on the run's, which links to it."""
    one = report(differs("published", HOSTILE, [HOSTILE]))
    findings = list(settled({}, one, unchecked_runs=3).values())
    run = RunReport(run="r", at=AT, started_by=None, models=("digits", "rent"), not_looked_at=("rent",))
    pages = [render_model_html(one, findings), render_run_html(run, [one], {"digits": findings})]
    for page in pages:
        assert "3-published" in page
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page
    assert 'href="models/digits.html"' in pages[1]
    assert "rent: the task failed, so their state is unknown" in pages[1]
