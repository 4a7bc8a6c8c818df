"""repository_gc beside what model_revalidation writes."""

from __future__ import annotations

from slipway_core.operations.layout import (
    latency_reference_key,
    revalidation_prefix,
    revalidation_report_key,
)
from slipway_core.operations.revalidation.findings import finding_key
from tests.support.release.retention_run import GcRun, approved_before


def test_reports_and_findings_stay(gc_run: GcRun) -> None:
    """Those of versions that go, too: they change no plan and are not deleted."""
    approved_before(gc_run.store)
    keys = {
        finding_key("digits", "1-published"),
        revalidation_report_key("run-1", "digits"),
        f"{revalidation_prefix('run-1')}page.html",
        latency_reference_key("digits", 1),
        "models/digits/1/evidence/r/answers.npz",
    }
    for key in keys:
        gc_run.store.write(key, b"{}")
    assert [one.version for one in gc_run.plan().with_action("delete")] == [1, 2]
    assert {outcome for outcome, _ in gc_run.delete().values()} == {"deleted"}
    there = {entry.key for prefix in ("operations/", "models/") for entry in gc_run.store.entries(prefix)}
    assert keys <= there
