"""repository_gc over a real S3 protocol and an emulated cluster: what it deletes, and what keeps it from deleting."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from hypothesis import example, given
from hypothesis import strategies as st

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations import gc
from slipway.registry.verification import verify_version
from slipway.release_record.lock import LockOwner, lock_key
from slipway.release_record.record import ReleaseRecord
from slipway_core.errors import ClusterUnavailableError, SlipwayError, VersionDeletedError
from slipway_core.record.kinds import ReleaseStarted
from tests.support.release.retention_run import GcRun, approved_before
from tests.support.store.interleaving import Killed, MortalStore
from tests.support.store.laid_down import LaidDown
from tests.support.store.publishing import patient

OLD = [1, 2]
STAYS = {"deleted.json", "evidence/deleted-manifest.json", "evidence/r/release.json"}


def there(store: ModelStoreHook, version: int) -> set[str]:
    root = f"models/digits/{version}/"
    return {entry.key.removeprefix(root) for entry in store.entries(root)}


def whole(store: ModelStoreHook) -> list[int]:
    """The versions of which no byte is missing."""
    found = []
    for version in range(1, 5):
        try:
            if verify_version(store, "digits", version) == []:
                found.append(version)
        except VersionDeletedError:
            pass
    return found


def going(run: GcRun) -> list[int]:
    return [one.version for one in run.plan().with_action("delete")]


def test_a_dry_run_deletes_nothing(gc_run: GcRun) -> None:
    """The page says what would go, why, and how many bytes; deleting is skipped."""
    gc_run.params["dry_run"] = True
    before = gc_run.store.entries("models/")
    assert going(gc_run) == OLD
    with pytest.raises(AirflowSkipException, match="2 versions would be deleted"):
        gc_run.approval().execute(gc_run.context)
    page = gc_run.show_result()
    assert gc_run.store.entries("models/") == before
    assert "dry run: nothing is deleted" in page
    assert "older than 30 days, and not in use" in page
    assert "live by the records; one of the newest 1 that were promoted" in page
    assert gc_run.shown["page"] == f"s3://{gc_run.store.bucket}/operations/gc/gc-1/plan.html"


def test_old_versions_are_deleted(gc_run: GcRun) -> None:
    """Their files are gone; evidence, record, tombstone and the manifest's copy stay; each deletion is in the audit."""
    approved_before(gc_run.store)
    assert going(gc_run) == OLD
    assert gc_run.approval().execute(gc_run.context) is None, "this bucket was approved before"
    assert {version: outcome for version, (outcome, _) in gc_run.delete().items()} == dict.fromkeys(
        OLD, "deleted"
    )
    assert [there(gc_run.store, version) for version in OLD] == [STAYS, STAYS]
    assert whole(gc_run.store) == [3, 4]
    assert len(gc_run.store.entries("records/digits/1/")) == 3
    begun = gc_run.store.read_json("operations/audit/digits/1/gc-1-deletion-begun.json")
    assert (begun["by"], begun["plan_sha256"]) == ("alice", gc_run.shown["plan_sha256"])
    finished = gc_run.store.read_json("operations/audit/digits/1/gc-1-deletion-finished.json")
    assert finished["size_bytes"] > 0
    assert "deleted" in gc_run.show_result()
    assert gc_run.store.read(lock_key("digits")) is None
    assert going(GcRun(gc_run.store, gc_run.releases_dir, "gc-2")) == []


def lock(store: ModelStoreHook, version: int) -> None:
    store.write(lock_key("digits"), LockOwner("digits-2", version).to_bytes())


def open_record(store: ModelStoreHook, version: int) -> None:
    ReleaseRecord(store, "digits", version, "again").append(ReleaseStarted())


NAMERS: dict[str, Any] = {
    "an InferenceService": lambda run, services: services.name(2, "elsewhere"),
    "staging": lambda run, services: run.store.write("staging/digits_baseline/2/model.onnx", b"x"),
    "a pin": lambda run, services: run.store.write("operations/pins/digits/2.json", b"hostile"),
    "an open record": lambda run, services: open_record(run.store, 2),
}


@pytest.mark.parametrize("case", NAMERS)
def test_who_names_a_version_keeps_it(case: str, gc_run: GcRun, services: Any) -> None:
    """Before the plan, and also when it comes between the plan and the deletion."""
    approved_before(gc_run.store)
    later = GcRun(gc_run.store, gc_run.releases_dir, "gc-2")
    assert going(gc_run) == OLD
    NAMERS[case](gc_run, services)
    assert going(later) == [1]
    became = gc_run.delete()
    assert (became[1][0], became[2][0]) == ("deleted", "kept")
    assert 2 in whole(gc_run.store)
    assert f"kept: {became[2][1]}".partition("'")[0] in gc_run.show_result().replace("&#39;", "'")


def test_a_release_under_way_keeps_all(gc_run: GcRun) -> None:
    """Its run holds the model's lock; when that run has ended, the lock is nobody's."""
    approved_before(gc_run.store)
    assert going(gc_run) == OLD
    lock(gc_run.store, 5)
    gc_run.running.add("digits-2")
    assert {outcome for outcome, _ in gc_run.delete().values()} == {"kept"}
    gc_run.running.discard("digits-2")
    assert {outcome for outcome, _ in gc_run.delete().values()} == {"deleted"}


class StoppedStore(ModelStoreHook):
    """Stands still between two requests, for so long that others act.

    :param at: the end of the key that is written last before it does.
    """

    def __init__(self, store: ModelStoreHook, at: str, others: Callable[[], None]) -> None:
        super().__init__(store.bucket)
        self._at, self._others = at, others

    def write_once(self, key: str, body: bytes, **fields: Any) -> bool:
        """Write, and let the others act."""
        written = super().write_once(key, body, **fields)
        if key.endswith(self._at):
            self._others()
        return written


@pytest.mark.parametrize("stopped_at", ["active.json", "deletion-begun.json"])
def test_a_process_that_was_stopped_deletes_nothing_that_is_used_now(gc_run: GcRun, stopped_at: str) -> None:
    """Airflow has ended its run meanwhile, so a release of one of these versions has taken the model's lock."""
    approved_before(gc_run.store)
    assert going(gc_run) == OLD
    gc_run.running.add("digits-2")
    others = [lambda: lock(gc_run.store, 2)]
    stopped = StoppedStore(gc_run.store, stopped_at, lambda: others.pop()() if others else None)
    task = gc_run.deletion()
    task.__dict__["store"] = stopped
    became = {one["version"]: one["outcome"] for one in task.execute(gc_run.context)["versions"]}
    assert became == {1: "kept", 2: "kept"}
    assert whole(gc_run.store) == [1, 2, 3, 4]
    assert LockOwner.from_bytes(gc_run.store.read(lock_key("digits")) or b"").release_id == "digits-2"


UNREADABLE: dict[str, Any] = {
    "the lock": lambda run: run.store.write(lock_key("digits"), b"{"),
    "a record": lambda run: run.store.write("records/digits/2/000009-promoted.json", b"{"),
    "the pins": lambda run: run.store.write("operations/pins/digits/x.json", b"{}"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_counts_as_used(case: str, gc_run: GcRun) -> None:
    """Nothing of the model is deleted, the page says why, and the run fails. So it is after the plan, too."""
    approved_before(gc_run.store)
    assert going(gc_run) == OLD
    UNREADABLE[case](gc_run)
    with pytest.raises((AirflowFailException, SlipwayError)):
        gc_run.delete()
    assert whole(gc_run.store) == [1, 2, 3, 4]
    later = GcRun(gc_run.store, gc_run.releases_dir, "gc-2")
    plan = later.plan()
    assert plan.unreadable
    assert plan.versions == ()
    with pytest.raises(AirflowFailException, match="digits:"):
        later.show_result()
    assert "what is in use is unknown" in later.page()


def test_a_cluster_that_is_away_deletes_nothing(
    gc_run: GcRun, services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the plan and at the last look."""
    approved_before(gc_run.store)
    assert going(gc_run) == OLD
    kubeconfig = services.emulator.kubeconfig.read_text().replace(services.emulator.url, "http://127.0.0.1:9")
    away = services.emulator.folder / "away"
    away.write_text(kubeconfig)
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(away)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    with pytest.raises(ClusterUnavailableError):
        gc_run.delete()
    later = GcRun(gc_run.store, gc_run.releases_dir, "gc-2")
    assert "listing inferenceservices failed" in (later.plan().unreadable or "")
    assert whole(gc_run.store) == [1, 2, 3, 4]
    assert gc_run.store.read(lock_key("digits")) is None


def test_a_plan_that_was_changed_is_not_carried_out(gc_run: GcRun) -> None:
    """What was shown is what may be deleted."""
    approved_before(gc_run.store)
    plan = gc_run.plan()
    more = tuple(one.model_copy(update={"action": "delete"}) for one in plan.versions)
    gc_run.store.write(
        "operations/gc/gc-1/plans/digits.json", plan.model_copy(update={"versions": more}).to_bytes()
    )
    with pytest.raises(AirflowFailException, match="is not the plan that was shown"):
        gc_run.delete()
    assert whole(gc_run.store) == [1, 2, 3, 4]


@patient
@given(dies_at=st.integers(1, 130), answer_lost=st.booleans())
@example(dies_at=30, answer_lost=False)
@example(dies_at=60, answer_lost=True)
@example(dies_at=90, answer_lost=False)
def test_killed_at_any_request(gc_run: GcRun, laid_down: LaidDown, dies_at: int, answer_lost: bool) -> None:
    """Each version is whole or cannot be used any more; the next run finishes what this one has begun, and the lock
    of the dead run keeps nobody out."""
    store = gc_run.store
    laid_down.into(store, pytest.fail)
    approved_before(store)
    assert going(gc_run) == OLD
    mortal = MortalStore(store, dies_at=dies_at, answer_lost=answer_lost)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "make_store", lambda *_, **__: mortal)
        task = gc_run.deletion()
        task.__dict__["store"] = mortal
        try:
            task.execute(gc_run.context)
        except Killed:
            pass
        else:
            assert mortal.requests < dies_at
    for version in OLD:
        if (there(store, version) & {"deleted.json"}) == set():
            assert version in whole(store)
    assert {3, 4} <= set(whole(store))
    later = GcRun(store, gc_run.releases_dir, "gc-2")
    begun = [version for version in OLD if there(store, version) != STAYS]
    assert going(later) == begun
    later.delete()
    assert [there(store, version) for version in OLD] == [STAYS, STAYS]
    assert whole(store) == [3, 4]
