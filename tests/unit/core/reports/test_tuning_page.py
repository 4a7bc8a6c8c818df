"""The page of a tuning: what was tried, the picture, and the change to review."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from slipway_core.errors import UserError
from slipway_core.reports.tuning.page import render_tuning_html
from slipway_core.tuning.change import ProposedChange
from slipway_core.tuning.conclusion import Conclusion, RatioInterval
from slipway_core.tuning.report import tuning_report
from slipway_core.tuning.settings import Setting
from tests.support.tuning.plans import make_plan, trial

PLAN = make_plan()
BEST = Setting(max_queue_delay_us=0, instances=2)
TRIALS = [
    trial(0, PLAN.defaults, 20.0, 21.0, kind="defaults"),
    trial(1, PLAN.present, 18.0, 18.5, kind="present"),
    trial(2, BEST, 6.0, 6.2),
    trial(3, Setting(instances=4), 90.0, state="hopeless", reason="<b>worse</b>"),
    trial(4, Setting(instances=2), state="failed", reason="it does not load"),
    trial(5, PLAN.defaults, 22.0, 22.0, kind="defaults_again"),
]


def report_of(conclusion: Conclusion, change: ProposedChange | None = None) -> dict[str, Any]:
    """The report as it is read from the bucket."""
    at = datetime(2026, 11, 22, tzinfo=UTC)
    return dict(json.loads(json.dumps(tuning_report(PLAN, TRIALS, [], conclusion, change, at))))


def test_the_page_shows_trials_picture_and_change() -> None:
    """Nothing that a trial says is markup; the front joins what no other trial beats."""
    interval = RatioInterval(0.3, 0.25, 0.35, 7)
    conclusion = Conclusion("improved", "It is faster.", TRIALS[2], interval, interval)
    report = report_of(conclusion, ProposedChange("", "--- a/x\n+++ b/x\n"))
    assert report["picture"]["front"] == [1, 2]
    assert report["drift_percent"] == pytest.approx(7.32)
    page = render_tuning_html(report)
    for told in (
        "-70.0 %",
        "<svg",
        "+++ b/x",
        "it does not load",
        "a change is proposed",
        "conversion.variants",
    ):
        assert told in page, told
    assert "<b>worse</b>" not in page


@pytest.mark.parametrize("status", ["no_gain", "inconclusive", "nothing_kept"])
def test_a_page_without_a_change_has_none(status: Any) -> None:
    """It says why."""
    page = render_tuning_html(report_of(Conclusion(status, "For a reason.")))
    assert "For a reason." in page
    assert "Proposed change" not in page


def test_another_document_is_refused() -> None:
    """In plain words."""
    with pytest.raises(UserError, match="another form"):
        render_tuning_html({"model": "digits"})
