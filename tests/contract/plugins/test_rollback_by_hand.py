"""Back to an earlier version by hand: real record, lock and manifests in S3, a model of Knative for the cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from slipway.hooks.lock import LockOwner
from slipway.hooks.record import ReleaseRecord
from slipway.hooks.registry import ModelRegistry
from slipway.hooks.store import ModelStoreHook
from slipway.operators import rollback as operators
from slipway.operators.release import ConcludeReleaseOperator
from slipway.operators.rollback import NameRollbackOperator, RollBackVersionOperator
from slipway.operators.traffic import TrafficOperator
from slipway.rollout_driver import drive
from slipway.ticket import ReleaseTicket

from include.model_release.errors import StoreUnavailableError
from include.model_release.rollout import Promote, StartCanary
from tests.contract.plugins.conftest import Publication
from tests.contract.plugins.test_signing import key_of
from tests.unit.model_release.knative_model import KnativeModel
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
    drive(double, StartCanary(uri(store, 2), 50, release_id="digits-2", version=2), timeout_s=5)  # type: ignore[arg-type]
    drive(double, Promote(uri(store, 2)), timeout_s=5)  # type: ignore[arg-type]
    monkeypatch.setattr(TrafficOperator, "service", double)
    monkeypatch.setattr(operators, "KServeHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def lease(monkeypatch: pytest.MonkeyPatch) -> LeaseDouble:
    """Nobody is at the wheel of a canary."""
    double = LeaseDouble()
    monkeypatch.setattr(TrafficOperator, "lease", double)
    monkeypatch.setattr(operators, "LeaseHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def _metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the metrics are nobody answers."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SLIPWAY_METRICS", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}'
    )


class RunDouble:
    """What the tasks of a run see of it."""

    dag_id = "model_rollback"

    def __init__(self, version: int | None = None) -> None:
        self.params = {"model": "digits", "version": version, "reason": "labels were swapped"}
        self.running: set[str] = {RUN}

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        """The state of any run."""
        return "running" if run_id in self.running else "failed"

    @property
    def context(self) -> Any:
        """The context of a task."""
        return {"params": self.params, "run_id": RUN, "dag": self, "ti": self}


@pytest.fixture
def name_it(store: ModelStoreHook, service: ServiceDouble, tmp_path: Path) -> Callable[..., ReleaseTicket]:
    """Runs the first task and returns the ticket of the rollback."""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)

    def execute(run: RunDouble, waited: int = 0) -> ReleaseTicket:
        operator = NameRollbackOperator(task_id="admit", releases_dir=str(tmp_path), bucket=store.bucket)
        return ReleaseTicket.parse(operator.execute(run.context, waited=waited))

    return execute


def uri(store: ModelStoreHook, version: int) -> str:
    return ModelRegistry(store).storage_uri("digits", version)


def finish(ticket: ReleaseTicket, run: RunDouble) -> None:
    """Run the other two tasks."""
    RollBackVersionOperator(task_id="roll_back", release=ticket.model_dump_json()).execute(run.context)
    ConcludeReleaseOperator(
        task_id="conclude", wanted="rolled_back", release=ticket.model_dump_json()
    ).execute(run.context)


def test_without_a_version_the_one_before_is_live_again(
    name_it: Callable[..., ReleaseTicket], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The InferenceService itself notes what was live before; the reason is in the record of what was left."""
    run = RunDouble()
    finish(name_it(run), run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}
    events = ReleaseRecord(store, "digits", 2, RUN).events()
    started = next(event for event in events if event.kind == "rollback_started")
    assert (started.data["by"], started.data["reason"]) == ("a person", "labels were swapped")
    assert ReleaseRecord(store, "digits", 2, RUN).state().outcome == "rolled_back"
    assert not store.exists("records/digits/active.json")


def test_a_canary_under_way_is_ended_first(
    name_it: Callable[..., ReleaseTicket],
    service: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its users are back, and its lease is ended by name, before the lock of its release is asked for."""
    drive(service, StartCanary(uri(store, 3), 30, release_id="digits-3", version=3), timeout_s=5)  # type: ignore[arg-type]
    lease.acquire("digits-3", lease_s=60, candidate_uri="", stable_uri="")
    run = RunDouble(version=1)
    monkeypatch.setattr(operators, "require_published_repository", lambda *arguments, **options: ())
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
    name_it: Callable[..., ReleaseTicket], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Who names no version wants the canary gone; the record is its own release's."""
    drive(service, StartCanary(uri(store, 3), 30, release_id="digits-3", version=3), timeout_s=5)  # type: ignore[arg-type]
    with pytest.raises(AirflowSkipException, match="the canary was ended"):
        name_it(RunDouble())
    assert service.model is not None
    assert service.model.users() == {uri(store, 2): 100}
    assert store.entries("records/digits/") == []


def test_after_a_rollback_the_version_must_be_named(
    name_it: Callable[..., ReleaseTicket], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Once one has gone back, the InferenceService does not tell what was live before that."""
    run = RunDouble()
    finish(name_it(run), run)
    with pytest.raises(AirflowFailException, match="does not note which version was live before"):
        name_it(RunDouble())


def test_a_version_that_was_never_published_is_refused(
    name_it: Callable[..., ReleaseTicket], service: ServiceDouble
) -> None:
    """A wrong number is told before anything is changed."""
    assert service.model is not None
    patches = len(service.patches)
    with pytest.raises(AirflowFailException, match="version 7 of 'digits' is not published"):
        name_it(RunDouble(version=7))
    assert len(service.patches) == patches


@pytest.fixture
def earlier(store: ModelStoreHook, prepare_version: Callable[..., Publication]) -> int:
    """Version 5, which was published, is not the one that was live before."""
    one = prepare_version(5)
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    return 5


def test_an_earlier_version_is_live_again(
    name_it: Callable[..., ReleaseTicket], service: ServiceDouble, store: ModelStoreHook, earlier: int
) -> None:
    """A version that is what was published may be named."""
    run = RunDouble(version=earlier)
    finish(name_it(run), run)
    assert service.model is not None
    assert service.model.users() == {uri(store, earlier): 100}


def test_an_earlier_version_that_was_changed_is_refused(
    name_it: Callable[..., ReleaseTicket], service: ServiceDouble, store: ModelStoreHook, earlier: int
) -> None:
    """Bytes that were swapped since they were published never come to users; nothing was changed for them."""
    store.write("models/digits/5/repository/digits/5/model.onnx", b"an onnx modeL")
    patches = len(service.patches)
    with pytest.raises(
        AirflowFailException, match="repository of version 5 of 'digits' is not what was published"
    ):
        name_it(RunDouble(version=earlier))
    assert len(service.patches) == patches


def test_an_earlier_version_must_be_signed_where_a_key_is_named(
    name_it: Callable[..., ReleaseTicket], service: ServiceDouble, earlier: int, tmp_path: Path
) -> None:
    """The key that the release file names counts for the way back by a person's choice too."""
    key_of(tmp_path)
    signing = f"publish: {{signing: {{private_key_file: {tmp_path / 'key.pem'}}}}}\n"
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE + signing)
    with pytest.raises(AirflowFailException, match="version 5 of 'digits' is not signed"):
        name_it(RunDouble(version=earlier))
    assert name_it(RunDouble(version=1)).stable is not None, "what was live before is asked nothing"


def test_an_earlier_version_is_gone_back_to_where_the_object_store_is_away(
    name_it: Callable[..., ReleaseTicket],
    service: ServiceDouble,
    store: ModelStoreHook,
    earlier: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A person's word goes on, and the log says that the version could not be checked."""

    def away(self: ModelStoreHook, *arguments: Any, **options: Any) -> Any:
        raise StoreUnavailableError("S3 did not answer")

    for method in ("read", "write_once", "entries", "read_with_etag", "stat"):
        monkeypatch.setattr(ModelStoreHook, method, away)
    ticket = name_it(RunDouble(version=earlier))
    assert ticket.stable is not None
    assert ticket.stable.storage_uri == uri(store, earlier)
    assert "going on with version 5 although it could not be checked" in capsys.readouterr().out


def test_users_go_first_where_the_object_store_is_away(
    name_it: Callable[..., ReleaseTicket],
    service: ServiceDouble,
    store: ModelStoreHook,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With S3 away the good version is brought back all the same; the task then waits to write the record."""
    run = RunDouble()

    def away(self: ModelStoreHook, *arguments: Any, **options: Any) -> Any:
        raise StoreUnavailableError("S3 did not answer")

    with monkeypatch.context() as broken:
        for method in ("read", "write_once", "entries", "read_with_etag"):
            broken.setattr(ModelStoreHook, method, away)
        ticket = name_it(run)
        with pytest.raises(StoreUnavailableError):
            RollBackVersionOperator(task_id="roll_back", release=ticket.model_dump_json()).execute(
                run.context
            )
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}
    finish(ticket, run)
    assert ReleaseRecord(store, "digits", 2, RUN).state().outcome == "rolled_back"
