"""Back to an earlier version by hand: real record, lock and manifests in S3, a model of Knative for the cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from slipway import release_context
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators import rollback as operators
from slipway.operators.base import ReleaseOperator
from slipway.operators.release import ConcludeReleaseOperator
from slipway.operators.rollback import (
    NameRollbackOperator,
    RollBackVersionOperator,
    TryRollbackOperator,
)
from slipway.registry.registry import ModelRegistry
from slipway.release_record.lock import LockOwner
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import reconcile

from include.model_release.errors import StoreUnavailableError
from include.model_release.rollout.next_action import Promote, StartCanary
from tests.contract.plugins.conftest import Publication
from tests.contract.plugins.registry.test_signing import key_of
from tests.support.release.proofs import promoted
from tests.support.rollout.knative_model import KnativeModel
from tests.unit.plugins.conftest import LeaseDouble, ServiceDouble

RELEASE_FILE = "model: digits\nsource: {format: onnx}\n"
RUN = "rollback-1"


@pytest.fixture
def service(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> ServiceDouble:
    """Version 2 was promoted over version 1."""
    model = KnativeModel()
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": uri(store, 1)}}}})
    model.settle()
    double = ServiceDouble(model)
    reconcile(double, StartCanary(uri(store, 2), 50, release_id="digits-2", version=2), timeout_s=5)  # type: ignore[arg-type]
    reconcile(double, Promote(uri(store, 2)), timeout_s=5)  # type: ignore[arg-type]
    monkeypatch.setattr(release_context, "KServeHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def lease(monkeypatch: pytest.MonkeyPatch) -> LeaseDouble:
    """Nobody holds a canary."""
    double = LeaseDouble()
    monkeypatch.setattr(release_context, "LeaseHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def published(store: ModelStoreHook, prepare_version: Callable[..., Publication]) -> None:
    """Versions 1 and 2 were released."""
    for version in (1, 2):
        one = prepare_version(version)
        ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
        promoted(store, "digits", version)


@pytest.fixture(autouse=True)
def _metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the metrics are nobody answers."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SLIPWAY_METRICS", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}'
    )


class RunDouble:
    """What the tasks of a run see of it."""

    dag_id = "model_rollback"

    def __init__(self, version: int | None = None, **form: Any) -> None:
        plain = {"model": "digits", "version": version, "reason": "labels were swapped"}
        self.params: dict[str, Any] = {**plain, "newer": False, "emergency": False, **form}
        self.running: set[str] = {RUN}
        self.pushed: dict[str, Any] = {}

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        """The state of any run."""
        return "running" if run_id in self.running else "failed"

    def xcom_push(self, key: str, value: Any) -> None:
        """What a task leaves for the others."""
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        """What it left."""
        return self.pushed[key]

    @property
    def context(self) -> Any:
        """The context of a task."""
        started = SimpleNamespace(triggering_user_name="alice")
        return {"params": self.params, "run_id": RUN, "dag": self, "ti": self, "dag_run": started}


@pytest.fixture
def name_it(store: ModelStoreHook, service: ServiceDouble, tmp_path: Path) -> Callable[..., ReleaseRun]:
    """Runs the first task and returns the release run of the rollback."""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)

    def execute(run: RunDouble, waited: int = 0) -> ReleaseRun:
        operator = NameRollbackOperator(task_id="admit", releases_dir=str(tmp_path), bucket=store.bucket)
        return ReleaseRun.parse(operator.execute(run.context, waited=waited))

    return execute


def uri(store: ModelStoreHook, version: int) -> str:
    return ModelRegistry(store).storage_uri("digits", version)


def validated(store: ModelStoreHook, release_run: ReleaseRun) -> None:
    """Staging has tried the version to go back to, as the DAG does between its first and its last task."""
    assert release_run.stable is not None
    _, digest = ModelRegistry(store).require_with_digest("digits", release_run.stable.version)
    ReleaseRecord(store, "digits", release_run.version, RUN).append(
        "stage_finished", stage="validate", outcome="passed", manifest_sha256=digest
    )


def roll_back(release_run: ReleaseRun, run: RunDouble) -> None:
    """Run the task that changes the InferenceService."""
    RollBackVersionOperator(task_id="roll_back", release=release_run.model_dump_json()).execute(run.context)


def finish(release_run: ReleaseRun, run: RunDouble) -> None:
    """Run the last two tasks."""
    roll_back(release_run, run)
    ConcludeReleaseOperator(
        task_id="conclude", wanted="rolled_back", release=release_run.model_dump_json()
    ).execute(run.context)


def test_without_a_version_the_one_before_is_live_again(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The InferenceService notes what was live before; who did it, and why, is in the record of what was left."""
    run = RunDouble()
    release_run = name_it(run)
    validated(store, release_run)
    finish(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}
    events = ReleaseRecord(store, "digits", 2, RUN).events()
    started = next(event for event in events if event.kind == "rollback_started")
    assert (started.data["by"], started.data["reason"]) == ("a person", "labels were swapped")
    state = ReleaseRecord(store, "digits", 2, RUN).state()
    assert (state.outcome, state.standing, state.triggered_by) == ("rolled_back", "rolled_back", "alice")
    assert not store.exists("records/digits/active.json")


def test_staging_tries_the_version_and_tells_the_record_of_the_one_to_leave(
    name_it: Callable[..., ReleaseRun], store: ModelStoreHook
) -> None:
    """The version is staged as a candidate is, with nothing to compare it with; the other one's record is told."""
    run = RunDouble()
    name_it(run)
    begin = TryRollbackOperator(task_id="begin", first_task_id="staging.prepare")
    tried = ReleaseRun.parse(begin.execute(run.context))
    assert (tried.version, tried.stable, tried.recorded_under) == (1, None, 2)
    step = ReleaseOperator(task_id="step", release=tried.model_dump_json())
    step.record.append("stage_started", stage="validate")
    assert [stage.name for stage in ReleaseRecord(store, "digits", 2, RUN).state().stages] == ["validate"]


def test_a_version_that_was_not_tried_is_not_gone_back_to(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Marking the staging tasks as success leads nobody anywhere: the record has no gate that passed."""
    run = RunDouble()
    release_run = name_it(run)
    patches = len(service.patches)
    with pytest.raises(AirflowFailException, match="the gate validate, passed; found it was not run"):
        roll_back(release_run, run)
    assert len(service.patches) == patches


def test_a_canary_under_way_is_ended_first(
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
) -> None:
    """Its users are back, and its lease is ended by name, before the lock of its release is asked for."""
    reconcile(service, StartCanary(uri(store, 3), 30, release_id="digits-3", version=3), timeout_s=5)  # type: ignore[arg-type]
    lease.acquire("digits-3", lease_s=60, candidate_uri="", stable_uri="")
    run = RunDouble(version=1)
    run.running.add("digits-3")
    operators.model_lock(store, "digits", run.context).acquire(LockOwner("digits-3", 3))
    with pytest.raises(TaskDeferred) as deferred:
        name_it(run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 2): 100}
    assert lease.lease is not None
    assert lease.lease.ended_by == "a person"
    assert deferred.value.kwargs == {"waited": 1}


def test_a_canary_that_was_ended_needs_no_other_version(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Who names no version wants the canary gone; the record is its own release's."""
    reconcile(service, StartCanary(uri(store, 3), 30, release_id="digits-3", version=3), timeout_s=5)  # type: ignore[arg-type]
    with pytest.raises(AirflowSkipException, match="the canary was ended"):
        name_it(RunDouble())
    assert service.model is not None
    assert service.model.users() == {uri(store, 2): 100}
    assert store.entries("records/digits/3/") == []


def test_after_a_rollback_the_version_must_be_named(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Once one has gone back, the InferenceService does not tell what was live before that."""
    run = RunDouble(emergency=True)
    finish(name_it(run), run)
    with pytest.raises(AirflowFailException, match="does not note which version was live before"):
        name_it(RunDouble())


# --- which versions users may be led to ---


def test_a_version_that_was_never_published_is_refused(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble
) -> None:
    """A wrong number is told before anything is changed."""
    assert service.model is not None
    patches = len(service.patches)
    for emergency in (False, True):
        with pytest.raises(AirflowFailException, match="version 7 of 'digits' is not published"):
            name_it(RunDouble(version=7, newer=True, emergency=emergency))
    assert len(service.patches) == patches


@pytest.fixture
def earlier(
    store: ModelStoreHook, service: ServiceDouble, prepare_version: Callable[..., Publication]
) -> int:
    """Version 9 is live over 2 by now, and version 1 is not the one that was live before."""
    one = prepare_version(9)
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    promoted(store, "digits", 9)
    reconcile(service, StartCanary(uri(store, 9), 50, release_id="digits-9", version=9), timeout_s=5)  # type: ignore[arg-type]
    reconcile(service, Promote(uri(store, 9)), timeout_s=5)  # type: ignore[arg-type]
    return 1


def test_an_earlier_version_is_live_again(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook, earlier: int
) -> None:
    """A version that was promoted, is what was published and was tried on staging may be named."""
    run = RunDouble(version=earlier)
    release_run = name_it(run)
    validated(store, release_run)
    finish(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, earlier): 100}


@pytest.mark.parametrize("emergency", [False, True])
def test_a_version_that_was_refused_is_refused_here_too(
    emergency: bool,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    earlier: int,
    prepare_version: Callable[..., Publication],
) -> None:
    """To be published is not enough: no gate has let this one through, and an emergency does not either."""
    one = prepare_version(5)
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    record = ReleaseRecord(store, "digits", 5, "digits-5")
    record.append("release_started")
    record.append("stage_finished", stage="validate", outcome="refused", reason="accuracy")
    record.append("release_finished", outcome="refused", refused_by="validate")
    patches = len(service.patches)
    with pytest.raises(
        AirflowFailException, match=r"nobody may be led to version 5 .* it was never promoted"
    ):
        name_it(RunDouble(version=5, emergency=emergency))
    assert len(service.patches) == patches


def test_a_version_that_was_rolled_back_is_refused(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook, earlier: int
) -> None:
    """It was promoted once and taken back since: it needs a release of its own."""
    record = ReleaseRecord(store, "digits", earlier, "rollback-0")
    record.append("release_started")
    record.append("rolled_back", stable_storage_uri="", candidate_requests=None, candidate_errors=None)
    with pytest.raises(AirflowFailException, match="it was rolled back"):
        name_it(RunDouble(version=earlier))


def test_a_newer_version_must_be_asked_for_as_such(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Forward is no way back, also for a version that was promoted once; asked for, another person must approve."""
    back = RunDouble(emergency=True)
    finish(name_it(back), back)
    promoted(store, "digits", 2)
    with pytest.raises(AirflowFailException, match="version 2 of 'digits' is not older than version 1"):
        name_it(RunDouble(version=2))
    run = RunDouble(version=2, newer=True)
    release_run = name_it(run)
    validated(store, release_run)
    with pytest.raises(AirflowFailException, match="nobody has approved"):
        roll_back(release_run, run)
    _, digest = ModelRegistry(store).require_with_digest("digits", 2)
    record = ReleaseRecord(store, "digits", 1, RUN)
    for by, refusal in (("alice", "by another person than alice"), ("bob", None)):
        record.append("approved", before="promotion", by=by, manifest_sha256=digest)
        if refusal is not None:
            with pytest.raises(AirflowFailException, match=refusal):
                roll_back(release_run, run)
    roll_back(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 2): 100}


@pytest.mark.parametrize("emergency", [False, True])
def test_an_earlier_version_that_was_changed_is_refused(
    emergency: bool,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    earlier: int,
) -> None:
    """Bytes that were swapped since they were published never come to users; nothing was changed for them."""
    store.write(f"models/digits/{earlier}/repository/digits/{earlier}/model.onnx", b"an onnx modeL")
    patches = len(service.patches)
    with pytest.raises(
        AirflowFailException, match=f"repository of version {earlier} of 'digits' is not what was published"
    ):
        name_it(RunDouble(version=earlier, emergency=emergency))
    assert len(service.patches) == patches


def test_an_earlier_version_must_be_signed_where_a_key_is_named(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, earlier: int, tmp_path: Path
) -> None:
    """The key that the release file names counts for the way back by a person's choice too."""
    key_of(tmp_path)
    signing = f"publish: {{signing: {{private_key_file: {tmp_path / 'key.pem'}}}}}\n"
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE + signing)
    with pytest.raises(AirflowFailException, match=f"version {earlier} of 'digits' is not signed"):
        name_it(RunDouble(version=earlier))
    assert name_it(RunDouble(emergency=True)).stable is not None, "what was live before is asked nothing"


def test_a_parameter_that_there_is_not_is_refused(name_it: Callable[..., ReleaseRun]) -> None:
    """A typo in the run's conf is told with the nearest name, and does not pass for its default."""
    with pytest.raises(AirflowFailException, match=r"no parameter `emergncy`.*did you mean `emergency`"):
        name_it(RunDouble(emergncy=True))


# --- with the object store away ---


@pytest.fixture
def store_away(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """S3 answers nothing, until it is undone."""

    def away(self: ModelStoreHook, *arguments: Any, **options: Any) -> Any:
        raise StoreUnavailableError("S3 did not answer")

    patch = pytest.MonkeyPatch()
    for method in ("read", "write_once", "entries", "read_with_etag", "stat"):
        patch.setattr(ModelStoreHook, method, away)
    return patch


@pytest.mark.parametrize("emergency", [False, True])
def test_a_version_of_a_persons_choice_needs_the_object_store(
    emergency: bool,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    earlier: int,
    store_away: pytest.MonkeyPatch,
) -> None:
    """Nobody can tell whether users may be led there: the task is tried again, and names what needs less."""
    patches = len(service.patches)
    try:
        with pytest.raises(StoreUnavailableError, match="`emergency`, which needs only the cluster"):
            name_it(RunDouble(version=earlier, emergency=emergency))
    finally:
        store_away.undo()
    assert len(service.patches) == patches


def test_in_an_emergency_users_go_first_where_the_object_store_is_away(
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    store_away: pytest.MonkeyPatch,
) -> None:
    """With S3 away the version before is brought back all the same; the task then waits to write the record."""
    run = RunDouble(emergency=True)
    try:
        release_run = name_it(run)
        with pytest.raises(StoreUnavailableError):
            roll_back(release_run, run)
    finally:
        store_away.undo()
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}
    finish(release_run, run)
    assert ReleaseRecord(store, "digits", 2, RUN).state().outcome == "rolled_back"
