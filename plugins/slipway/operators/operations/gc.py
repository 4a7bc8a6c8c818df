"""The repository's garbage collector: which models, what would go of each, and deleting what a person has agreed to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from slipway.airflow_run import model_lock, triggered_by
from slipway.failures import airflow_failures
from slipway.hooks.s3_guarantees import require_guarantees
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.retention_look import RetentionLook
from slipway.read_model.keeper import keep_current
from slipway.registry.deletion import Removed, delete_version
from slipway.release_context import make_store
from slipway.release_record.lock import LockOwner, ReleaseLock
from slipway.workflows import REPOSITORY_GC
from slipway_core.errors import ReleaseInProgressError, SlipwayError, UserError
from slipway_core.identifiers import list_models
from slipway_core.operations.audit import AuditEntry, GcApproval, require_approved
from slipway_core.operations.gc_run import ModelResult, Outcome, RunPlan, VersionResult
from slipway_core.operations.layout import (
    GC_APPROVAL_KEY,
    Act,
    audit_key,
    plan_key,
    result_key,
    run_plan_key,
)
from slipway_core.operations.retention import (
    ModelPlan,
    VersionPlan,
    plan_retention,
    unreadable_plan,
)
from slipway_core.publishing.tombstone import Tombstone
from slipway_core.spec.release_file import ReleaseSpec, load_model_spec
from slipway_core.spec.run_overrides import GC_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context

ANSWER_LIMIT_S = 20.0
"""How long the object store may take for an answer; it is asked twice."""


class GcOperator(BaseOperator):
    """What the tasks of `repository_gc` share.

    :param releases_dir: the folder with the release files.
    :param bucket: the bucket (templated).
    :param answer_limit_s: how long the object store may take for an answer.
    """

    template_fields: Sequence[str] = ("bucket",)

    def __init__(
        self,
        *,
        releases_dir: str,
        bucket: str,
        aws_conn_id: str = "aws_default",
        kubernetes_conn_id: str = "kubernetes_default",
        answer_limit_s: float = ANSWER_LIMIT_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self.answer_limit_s = answer_limit_s

    @cached_property
    def store(self) -> ModelStoreHook:
        """The bucket, encrypted as the connection says."""
        return ModelStoreHook(self.bucket, self.aws_conn_id, answer_limit_s=self.answer_limit_s)

    def execute(self, context: Context) -> Any:
        """Run the task; what a person must change is not tried again."""
        with airflow_failures():
            return self.run(context)

    def run(self, context: Context) -> Any:
        """Do the task itself."""
        raise NotImplementedError

    def look_at(self, model: str) -> tuple[ReleaseSpec, RetentionLook]:
        """Return the model's release file, and a look at all that names its versions."""
        folder = Path(self.releases_dir)
        spec = load_model_spec(folder, model)
        # Any release file may lead to a namespace: one that cannot be read hides what is in use there.
        specs = [load_model_spec(folder, name) for name in list_models(folder)]
        namespaces = sorted({one.rollout.namespace for one in specs})
        store = make_store(self.bucket, spec, self.aws_conn_id, answer_limit_s=self.answer_limit_s)
        return spec, RetentionLook(store, spec, namespaces, kubernetes_conn_id=self.kubernetes_conn_id)


class ListModelsOperator(GcOperator):
    """Lists the models to look at: those asked for, else all that have a release file.

    :returns: their names, sorted.
    """

    def run(self, context: Context) -> list[str]:
        """Check what was asked for.

        :raises UserError: a model has no release file.
        """
        params = context["params"]
        require_known(params, GC_PARAMETERS)
        folder = Path(self.releases_dir)
        asked = sorted({str(name) for name in params.get("models") or ()}) or list_models(folder)
        for model in asked:
            load_model_spec(folder, model)
        return list(asked)


class PlanRetentionOperator(GcOperator):
    """Plans what becomes of each version of a model, and writes the plan into the run's folder.

    What cannot be read fails nothing here: then the plan says so, and deletes nothing of the model.

    :param model: its name.
    """

    def __init__(self, *, model: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model

    def run(self, context: Context) -> str:
        """Look, plan and write; return the plan's key."""
        now = datetime.now(UTC)
        spec, look = self.look_at(self.model)
        try:
            plan = plan_retention(look.facts(look.stored_versions()), spec.retention, now)
        except SlipwayError as error:
            self.log.warning("nothing of %s is deleted: %s", self.model, error)
            plan = unreadable_plan(self.model, spec.retention, now, str(error))
        key = plan_key(context["run_id"], self.model)
        self.store.write(key, plan.to_bytes(), content_type="application/json")
        return key


class DeleteVersionsOperator(GcOperator):
    """Deletes what the plan says, one version after the other, each under the model's lock and after a last look.

    A version that a second plan, made of what is there at that moment, would keep is kept. What an earlier run has
    begun is finished. The first run that deletes in a bucket needs the agreement of another person, which lies there.

    :param model: its name.
    :param plan_sha256: digest of the run's plan as it was shown (templated).
    :param workers: how many objects are deleted at once.
    """

    template_fields: Sequence[str] = ("bucket", "plan_sha256")

    def __init__(self, *, model: str, plan_sha256: str, workers: int = 8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.plan_sha256 = plan_sha256
        self.workers = workers

    def run(self, context: Context) -> dict[str, Any]:
        """Delete, and write what came of it into the run's folder.

        :raises UserError: nobody has agreed, or the plan is not the one that was shown.
        :raises TransientError: something could not be read; what was begun is finished by the next try or run.
        """
        run_id = context["run_id"]
        plan = read_plan(self.store, run_id, self.model, self.plan_sha256)
        approval = require_approved(read_approval(self.store), run_id, self.plan_sha256)
        require_guarantees(self.store)  # each deletion is made under the model's lock
        spec, look = self.look_at(self.model)
        stored = {one.version: one for one in look.stored_versions()}

        def last_look(version: int) -> VersionPlan:
            """Plan again, right before the deletion, by what is there now."""
            stored[version] = look.stored_version(version)
            facts = look.facts(list(stored.values()))
            now = plan_retention(facts, spec.retention, datetime.now(UTC))
            return next(one for one in now.versions if one.version == version)

        results = []
        for one in plan.with_action("delete"):
            results.append(self._delete(context, one, last_look, approval))
            stored[one.version] = look.stored_version(one.version)
        gone = [one.version for one in results if one.outcome == "deleted"]
        if gone:
            keep_current(self.store.with_answer_limit, self.model, gone)
        result = ModelResult(model=self.model, versions=tuple(results))
        self.store.write(result_key(run_id, self.model), result.to_bytes(), content_type="application/json")
        return result.model_dump(mode="json")

    def _delete(
        self,
        context: Context,
        one: VersionPlan,
        last_look: Callable[[int], VersionPlan],
        approval: GcApproval,
    ) -> VersionResult:
        owner = LockOwner(context["run_id"], one.version, REPOSITORY_GC)
        lock = model_lock(self.store, self.model, context)
        holder = lock.acquire(owner)
        if (holder.release_id, holder.dag_id) != (owner.release_id, REPOSITORY_GC):
            why = f"the run {holder.release_id} holds the model's lock; the next run tries again"
            return VersionResult(version=one.version, outcome="kept", why=why)
        try:
            found = last_look(one.version)
            reasons = "; ".join(found.reasons)
            if found.action != "delete":
                outcome: Outcome = "deleted" if found.action == "deleted" else "kept"
                return VersionResult(version=one.version, outcome=outcome, why=reasons)
            removed = self._remove(context, one, approval, lambda: _require_held(lock, holder))
        except ReleaseInProgressError as error:
            return VersionResult(version=one.version, outcome="kept", why=error.in_short())
        finally:
            lock.release(holder)
        self.log.info("version %s of %s: %s bytes deleted", one.version, self.model, removed.size_bytes)
        return VersionResult(
            version=one.version,
            outcome="deleted",
            why=reasons,
            objects=removed.objects,
            size_bytes=removed.size_bytes,
        )

    def _remove(
        self, context: Context, one: VersionPlan, approval: GcApproval, require_lock: Callable[[], None]
    ) -> Removed:
        """Delete the version between two entries of the audit."""
        run_id, started_by = context["run_id"], triggered_by(context)
        approved_by = approval.approved_by if approval.run == run_id else None
        reason = "; ".join(one.reasons)

        def note(act: Act, removed: Removed | None = None) -> None:
            entry = AuditEntry(
                act=act,
                model=self.model,
                version=one.version,
                run=run_id,
                at=datetime.now(UTC),
                by=started_by,
                approved_by=approved_by,
                plan_sha256=self.plan_sha256,
                reason=reason,
                objects=None if removed is None else removed.objects,
                size_bytes=None if removed is None else removed.size_bytes,
            )
            self.store.write_once(audit_key(self.model, one.version, run_id, act), entry.to_bytes())

        tombstone = Tombstone(
            model=self.model,
            version=one.version,
            begun_at=datetime.now(UTC),
            run=run_id,
            started_by=started_by,
            approved_by=approved_by,
            plan_sha256=self.plan_sha256,
            reason=reason[:2000],
        )
        require_lock()
        note("deletion-begun")
        removed = delete_version(self.store, tombstone, require_lock, workers=self.workers)
        note("deletion-finished", removed)
        return removed


def _require_held(lock: ReleaseLock, owner: LockOwner) -> None:
    """Return while the lock is still the one that was taken.

    :raises ReleaseInProgressError: another run has taken it: it was held for a run that had ended by then.
    """
    holder = lock.holder()
    if holder != owner:
        raise ReleaseInProgressError(
            "the model's lock was lost before the deletion began",
            expected=f"{owner.release_id} holds it",
            found="nobody holds it" if holder is None else f"{holder.release_id} of {holder.dag_id} holds it",
            remedy="the next run tries again",
        )


def read_approval(store: ModelStoreHook) -> GcApproval | None:
    """Return who has agreed to the first run that deletes in this bucket; None where nobody has."""
    content = store.read(GC_APPROVAL_KEY, most_bytes=GcApproval.limit_bytes)
    return None if content is None else GcApproval.from_bytes(content, store.uri(GC_APPROVAL_KEY))


def read_plan(store: ModelStoreHook, run_id: str, model: str, plan_sha256: str) -> ModelPlan:
    """Return a model's plan as it was shown.

    :param plan_sha256: digest of the run's plan, which has the digest of each model's.
    :raises UserError: one of the two is missing, or not what was shown.
    """
    key = run_plan_key(run_id)
    remedy = "start a new run of repository_gc"
    whole = store.require(key, remedy=remedy, most_bytes=RunPlan.limit_bytes)
    _require_digest(store.uri(key), whole, plan_sha256)
    wanted = RunPlan.from_bytes(whole, store.uri(key)).plans.get(model, "")
    own = plan_key(run_id, model)
    content = store.require(own, remedy=remedy, most_bytes=ModelPlan.limit_bytes)
    _require_digest(store.uri(own), content, wanted)
    return ModelPlan.from_bytes(content, store.uri(own))


def _require_digest(name: str, content: bytes, expected: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise UserError(
            f"{name} is not the plan that was shown",
            expected=f"SHA-256 {expected or 'of the run plan'}",
            found=f"SHA-256 {found}",
            remedy="find out what changed it, then start a new run of repository_gc",
        )
