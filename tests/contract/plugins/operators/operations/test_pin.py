"""version_pin: a pinned version stays, and it is kept who pinned and who unpinned it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.operators.operations.pin import PinVersionOperator
from tests.support.release.retention_run import GcRun, approved_before


def pin(run: GcRun, version: int, action: str = "pin", run_id: str = "pin-1", **form: Any) -> str:
    context: Any = {
        "params": {"model": "digits", "version": version, "action": action, "reason": "an audit", **form},
        "run_id": run_id,
        "dag_run": SimpleNamespace(triggering_user_name="carol"),
    }
    task = PinVersionOperator(task_id="pin", releases_dir=str(run.releases_dir), bucket=run.store.bucket)
    return task.execute(context)


def test_a_pinned_version_stays_until_it_is_unpinned(gc_run: GcRun) -> None:
    """The page says who wants it; both acts stay in the audit."""
    approved_before(gc_run.store)
    assert pin(gc_run, 1) == "version 1 of digits is pinned"
    plan = gc_run.plan()
    assert [one.version for one in plan.with_action("delete")] == [2]
    assert "pinned by carol on" in gc_run.page()
    assert pin(gc_run, 1, "unpin", "pin-2") == "version 1 of digits is no longer pinned"
    later = GcRun(gc_run.store, gc_run.releases_dir, "gc-2")
    assert [one.version for one in later.plan().with_action("delete")] == [1, 2]
    for name, act in (("pin-1-pinned", "pinned"), ("pin-2-unpinned", "unpinned")):
        entry = gc_run.store.read_json(f"operations/audit/digits/1/{name}.json")
        assert (entry["act"], entry["by"], entry["reason"]) == (act, "carol", "an audit")


def test_what_is_not_there_is_not_pinned(gc_run: GcRun) -> None:
    """A version that was never published, or is deleted; and no parameter that there is not."""
    approved_before(gc_run.store)
    gc_run.plan()
    gc_run.delete()
    for version, told in ((9, "is not published"), (1, "was deleted")):
        with pytest.raises(AirflowFailException, match=told):
            pin(gc_run, version)
    with pytest.raises(AirflowFailException, match="no parameter `forever`"):
        pin(gc_run, 3, forever=True)
    assert gc_run.store.entries("operations/pins/") == []
