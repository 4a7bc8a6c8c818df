"""A run of `repository_gc`, as its tasks see it, over versions with records and an InferenceService."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.gc import DeleteVersionsOperator, ListModelsOperator, PlanRetentionOperator
from slipway.operators.operations.gc_approval import ApproveRetentionOperator
from slipway.operators.operations.gc_page import ShowRetentionPlanOperator, ShowRetentionResultOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway_core.operations.audit import GcApproval
from slipway_core.operations.layout import GC_APPROVAL_KEY, plan_key
from slipway_core.operations.retention import ModelPlan
from slipway_core.record.kinds import Promoted, ReleaseFinished, ReleaseStarted
from tests.support.store.publishing import Prepare, prepared, publish

RELEASE_FILE = """
model: digits
source: {format: onnx}
rollout: {namespace: models}
retention: {keep_promoted: 1, keep_days: 30}
"""
LATER = timedelta(days=90)


class LaterClock(datetime):
    """A clock that is 90 days ahead: what was just published is old by it."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        """The time in 90 days."""
        return datetime.now(tz) + LATER


def lay_down(store: ModelStoreHook, prepare: Prepare, versions: range) -> None:
    """Publish versions and promote each in its record, one after the other: the last one is live."""
    begun = datetime.now(UTC) - timedelta(hours=1)
    for version in versions:
        publish(store, prepared(prepare, version, weight_files=2))
        store.write(f"models/digits/{version}/evidence/r/release.json", b"{}")
        uri = ModelRegistry(store).storage_uri("digits", version)
        before = ModelRegistry(store).storage_uri("digits", version - 1) if version > versions[0] else None
        record = ReleaseRecord(store, "digits", version, f"digits-{version}")
        at = begun + timedelta(minutes=version)
        record.append(ReleaseStarted(stable_storage_uri=before), at=at)
        record.append(Promoted(storage_uri=uri), at=at)
        record.append(ReleaseFinished(outcome="promoted"), at=at)


def approved_before(store: ModelStoreHook) -> None:
    """An earlier run was approved in this bucket."""
    agreed = GcApproval(
        run="gc-0", started_by="alice", approved_by="bob", at=datetime.now(UTC), plan_sha256="a" * 64
    )
    store.write_once(GC_APPROVAL_KEY, agreed.to_bytes())


class GcRun:
    """The tasks of one run, in the order of the DAG. `running` are the runs that Airflow says are under way."""

    dag_id = "repository_gc"

    def __init__(
        self, store: ModelStoreHook, releases_dir: Path, run_id: str = "gc-1", *, dry_run: bool = False
    ) -> None:
        self.store = store
        self.releases_dir = releases_dir
        self.run_id = run_id
        self.params = {"models": [], "dry_run": dry_run}
        self.started_by: str | None = "alice"
        self.running = {run_id}
        self.answer_limit_s = 10.0
        self._shared = {"releases_dir": str(releases_dir), "bucket": store.bucket}
        self.shown: dict[str, Any] = {}

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        """The state of any run."""
        return "running" if run_id in self.running else "failed"

    @property
    def context(self) -> Any:
        """The context of a task."""
        started = SimpleNamespace(triggering_user_name=self.started_by)
        task = SimpleNamespace(id="1")
        return {
            "params": self.params,
            "run_id": self.run_id,
            "dag": self,
            "ti": self,
            "task_instance": task,
            "dag_run": started,
        }

    def _arguments(self, task_id: str) -> dict[str, Any]:
        return {"task_id": task_id, "answer_limit_s": self.answer_limit_s, **self._shared}

    def plan(self) -> ModelPlan:
        """Run all tasks up to the page; return the plan for `digits`."""
        models = ListModelsOperator(**self._arguments("list_models")).execute(self.context)
        for model in models:
            PlanRetentionOperator(model=model, **self._arguments("plan")).execute(self.context)
        self.shown = ShowRetentionPlanOperator(
            models=json.dumps(models), **self._arguments("show_plan")
        ).execute(self.context)
        content = self.store.read(plan_key(self.run_id, "digits")) or b""
        return ModelPlan.from_bytes(content, "the plan")

    def approval(self) -> ApproveRetentionOperator:
        """The task that asks a person."""
        return ApproveRetentionOperator(
            task_id="approve", bucket=self.store.bucket, shown=json.dumps(self.shown)
        )

    def deletion(self) -> DeleteVersionsOperator:
        """The task that deletes."""
        return DeleteVersionsOperator(
            model="digits", plan_sha256=self.shown["plan_sha256"], workers=1, **self._arguments("delete")
        )

    def delete(self) -> dict[int, tuple[str, str]]:
        """Delete; return what became of each version, and why."""
        result = self.deletion().execute(self.context)
        return {one["version"]: (one["outcome"], one["why"]) for one in result["versions"]}

    def show_result(self) -> str:
        """Write the page; return it."""
        ShowRetentionResultOperator(
            plan_sha256=self.shown["plan_sha256"], **self._arguments("show_result")
        ).execute(self.context)
        return self.page("result")

    def page(self, which: str = "plan") -> str:
        """The page of the plan, or of the result, as it lies in the bucket."""
        return (self.store.read(f"operations/gc/{self.run_id}/{which}.html") or b"").decode()
