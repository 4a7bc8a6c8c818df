"""Freezes as a person sets, lifts and overrides them, for tests of what they hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.freeze import FreezeReleasesOperator
from slipway_core.operations.freezes import freeze
from tests.support.release.admission import RELEASE_FILE


def frozen(
    store: ModelStoreHook, model: str | None = None, by: str = "bob", reason: str = "audit", hours: float = 1
) -> str:
    """Write a freeze that ends so many hours from now; return its key."""
    now = datetime.now(UTC)
    until = now + timedelta(hours=hours)
    key, content = freeze(model, who=by, now=now, until=until, reason=reason, run_id=f"{by} {reason}")
    assert store.write_once(key, content)
    return key


def asks(
    store: ModelStoreHook,
    releases: Path,
    action: str,
    *,
    who: str | None = "carol",
    run_id: str = "manual__1",
    notes: list[str] | None = None,
    **params: Any,
) -> str:
    """Let a person start `release_freeze`; a release file of `digits` is written where there is none.

    :param notes: gets the texts of the run's note.
    """
    path = releases / "digits.yaml"
    if not path.exists():
        path.write_text(RELEASE_FILE)
    form = {"action": action, "model": None, "until": None, "version": None, "reason": "urgent", **params}
    context: Any = {
        "params": form,
        "run_id": run_id,
        "dag_run": SimpleNamespace(triggering_user_name=who),
        "ti": SimpleNamespace(xcom_push=lambda _key, note: None if notes is None else notes.append(note)),
    }
    operator = FreezeReleasesOperator(task_id="write", releases_dir=str(releases), bucket=store.bucket)
    return operator.execute(context)
