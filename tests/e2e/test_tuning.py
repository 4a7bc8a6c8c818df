"""model_tuning by Airflow's scheduler, beside releases that want the same staging server: it only proposes."""

from __future__ import annotations

import pytest

from tests.support.e2e.drift_story import DriftStory
from tests.support.e2e.release_files import DRIFTING

pytestmark = pytest.mark.nightly


def test_better_setting_is_proposed_as_a_change_of_the_release_file(drift: DriftStory) -> None:
    """The diff lies in the bucket beside the page, and takes away the batching that costs latency."""
    tuned = drift.tuned
    assert tuned.run.state == "success"
    assert tuned.report["status"] == "improved", tuned.report["summary"]
    assert "\n-    max_queue_delay_us: 100000\n" in tuned.evidence["proposal.diff"].decode()
    assert "max_queue_delay_us: 100000" not in tuned.evidence["proposal.yaml"].decode()


def test_nothing_is_changed(drift: DriftStory) -> None:
    """The release file is as it was, and no copy of the version is left on staging."""
    before, after = drift.tuned.release_file
    assert before == after
    assert drift.tuned.left_on_staging == []


def test_run_tells_what_was_found(drift: DriftStory) -> None:
    """Its note has the conclusion; the page shows every trial."""
    assert drift.tuned.note.startswith(f"{DRIFTING} 1: tuning: {drift.tuned.report['summary'][:40]}")
    assert len(drift.tuned.report["trials"]) >= 3
    assert "a change is proposed" in drift.tuned.evidence["tuning.html"].decode()
