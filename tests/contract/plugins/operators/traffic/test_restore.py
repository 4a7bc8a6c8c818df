"""The way back of a release needs the cluster and nothing else: whatever else is wrong is told when users are safe."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway import release_context
from slipway.hooks.s3_store import ModelStoreHook
from slipway.metrics.sources.scrape import EnvoyMetricsHook
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.operators.restore import RestoreStableOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway.rollback_address import RollbackAddress
from slipway.traffic import after_rollback
from slipway.traffic.drain import CandidateDrain
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import InputMissingError, SlipwayError
from slipway_core.metrics.samples import Counters, Reading
from slipway_core.record.events import SEQ_LIMIT
from slipway_core.record.kinds import ReleaseStarted, RolledBack, StageStarted, WeightIntended
from slipway_core.rollout.next_action import StartCanary
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.store.connections import aws_connection

Restore = Callable[..., None]
RUN = "digits-3"


@pytest.fixture
def release_run(store: ModelStoreHook) -> ReleaseRun:
    """Version 3 is being released over version 2."""
    return ReleaseRun(
        release_id=RUN,
        model="digits",
        version=3,
        bucket=store.bucket,
        spec=parse_release_spec("model: digits\nsource: {format: onnx}\n", "digits.yaml"),
        stable=StableVersion(version=2, storage_uri=ModelRegistry(store).storage_uri("digits", 2)),
    )


@pytest.fixture
def service(release_run: ReleaseRun, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> ServiceDouble:
    """Half of the users are on the candidate."""
    assert release_run.stable is not None
    model = KnativeModel()
    model.create(
        {"metadata": {}, "spec": {"predictor": {"model": {"storageUri": release_run.stable.storage_uri}}}}
    )
    model.settle()
    double = ServiceDouble(model)
    monkeypatch.setattr(release_context, "KServeHook", lambda *arguments: double)
    lease = LeaseDouble()
    monkeypatch.setattr(release_context, "LeaseHook", lambda *arguments: lease)
    record(store).append(ReleaseStarted(stable_storage_uri=release_run.stable.storage_uri))
    record(store).append(
        WeightIntended(
            weight=50, storage_uri=release_run.storage_uri, stable_storage_uri=release_run.stable.storage_uri
        )
    )
    reconcile(double, StartCanary(release_run.storage_uri, 50, release_id=RUN, version=3), timeout_s=60)  # type: ignore[arg-type]
    double.patches.clear()
    return double


@pytest.fixture
def restore(release_run: ReleaseRun, service: ServiceDouble, monkeypatch: pytest.MonkeyPatch) -> Restore:
    """Runs the teardown, with nobody at the metrics' address."""
    nobody = '{"conn_type": "http", "host": "127.0.0.1", "port": 1}'
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_METRICS", nobody)

    def run(release: str | None = None) -> None:
        RestoreStableOperator(task_id="restore", release=release or release_run.model_dump_json()).execute({})

    return run


def record(store: ModelStoreHook) -> ReleaseRecord:
    return ReleaseRecord(store, "digits", 3, RUN)


def kinds(store: ModelStoreHook) -> list[str]:
    """Return the kinds of what the record holds, read as names alone: an event in it may be broken."""
    return [
        entry.key.rpartition("-")[2].removesuffix(".json") for entry in store.entries("records/digits/3/")
    ]


def users(service: ServiceDouble) -> dict[str, int]:
    assert service.model is not None
    return dict(service.model.users())


def put_event(store: ModelStoreHook, seq: int, kind: str, data: Any) -> None:
    """Somebody else writes an event, or what shall pass for one."""
    event = {
        "seq": seq,
        "at": "2026-11-20T12:00:00+00:00",
        "kind": kind,
        "release_id": RUN,
        "model": "digits",
    }
    body = json.dumps({**event, "version": 3, "data": data}).encode()
    store.write(f"records/digits/3/{seq:06d}-{kind}.json", body)


BROKEN: dict[str, Callable[[ModelStoreHook], None]] = {
    "first_bad_at is a number": lambda store: put_event(store, 3, "window_judged", {"first_bad_at": 3}),
    "weight is null": lambda store: put_event(store, 3, "weight_observed", {"weight": None}),
    "data is a list": lambda store: put_event(store, 3, "weight_observed", [1]),
    "not JSON": lambda store: store.write("records/digits/3/000003-weight_observed.json", b"\xff{"),
    "a number far away": lambda store: put_event(store, SEQ_LIMIT - 100, "weight_observed", {"weight": 5}),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN)
def test_a_record_that_cannot_be_right_keeps_nobody_on_the_candidate(
    breaks: Callable[[ModelStoreHook], None],
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    restore: Restore,
) -> None:
    """Users are taken back, the rollback is written down behind what is broken, and the task fails and names it."""
    breaks(store)
    with pytest.raises(AirflowFailException, match=r"records/digits/3|record of digits 3"):
        restore()
    assert release_run.stable is not None
    assert users(service) == {release_run.stable.storage_uri: 100}
    assert kinds(store)[-6:].count("rolled_back") == 1
    assert "rollback_started" in kinds(store)


def test_a_broken_record_does_not_keep_the_model_locked(
    release_run: ReleaseRun, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is concluded as failed, with the reason; the next version may be released."""
    record(store).append(ReleaseStarted())
    put_event(store, 2, "weight_observed", {"weight": None})
    store.write_json(
        "records/digits/active.json", {"release_id": RUN, "version": 3, "dag_id": "model_release"}
    )

    class Dag:
        dag_id = "model_release"

    operator = ConcludeReleaseOperator(task_id="conclude", release=release_run.model_dump_json())
    with pytest.raises(AirflowFailException, match="`weight`"):
        operator.execute({"dag": Dag(), "ti": None})  # type: ignore[typeddict-item]
    assert kinds(store)[-1] == "release_finished"
    assert not store.exists("records/digits/active.json")


def newer_release_run(release_run: ReleaseRun) -> str:
    """Return a release run as another version of this code would write it."""
    whole = release_run.model_dump(mode="json")
    whole["spec"] |= {"gates": ["all"], "benchmark": "none"}
    return json.dumps({**whole, "stable": {"uri": "elsewhere"}, "tries": 3})


def test_a_release_run_of_another_code_version_is_taken_back(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, restore: Restore
) -> None:
    """Only the InferenceService's name is needed of it; where to go back to stands on that object."""
    restore(newer_release_run(release_run))
    assert release_run.stable is not None
    assert users(service) == {release_run.stable.storage_uri: 100}
    assert record(store).state().outcome == "rolled_back"


def test_a_missing_metrics_connection_holds_up_nothing(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    restore: Restore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow knows no such connection: the counts are unknown, the rollback and its record are whole."""
    monkeypatch.delenv("AIRFLOW_CONN_SLIPWAY_METRICS")
    restore()
    found = record(store).state()
    assert (found.outcome, found.candidate_errors) == ("rolled_back", None)
    told = next(event.data for event in record(store).events() if isinstance(event.data, RolledBack))
    assert (told.requests_after_weight_0, told.seconds_after_weight_0) == (None, 0.0)


@pytest.mark.parametrize("per_reading", [0, 7])
def test_the_record_tells_what_the_router_did_after_weight_0(
    service: ServiceDouble,
    store: ModelStoreHook,
    restore: Restore,
    monkeypatch: pytest.MonkeyPatch,
    per_reading: int,
) -> None:
    """Requests that still reach the candidate are counted, by the same source as the judge's, and none is told too."""
    readings = itertools.count(1)

    def read(source: EnvoyMetricsHook, revisions: Iterable[str]) -> dict[str, Reading]:
        counts = Counters(100 + per_reading * next(readings), 0)
        return {one: Reading.of(time.time(), {"router": counts}) for one in revisions}

    monkeypatch.setattr(EnvoyMetricsHook, "read", read)
    monkeypatch.setattr(after_rollback, "SHORTEST_S", 0.01)
    restore()
    told = next(event.data for event in record(store).events() if isinstance(event.data, RolledBack))
    assert told.seconds_after_weight_0
    assert (told.requests_after_weight_0 or 0) >= per_reading
    assert bool(told.requests_after_weight_0) == bool(per_reading)


def test_an_error_of_no_known_kind_holds_up_nothing(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    restore: Restore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a client raises, users go first; the task then fails with it and is run again."""

    def broken(self: Any, *arguments: Any, **options: Any) -> Any:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(ModelStoreHook, "entries", broken)
        patch.setattr(EnvoyMetricsHook, "read", broken)
        with pytest.raises(RuntimeError, match="a bug"):
            restore()
    assert release_run.stable is not None
    assert users(service) == {release_run.stable.storage_uri: 100}
    restore()
    assert record(store).state().outcome == "rolled_back"


def test_a_task_that_dies_while_it_drains_goes_on_when_it_is_run_again(
    service: ServiceDouble, store: ModelStoreHook, restore: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The good version has all new requests, and the release is not rolled back before nobody is on the candidate."""

    def ends(self: CandidateDrain) -> None:
        raise SystemExit("the worker was told to end")

    with monkeypatch.context() as patch:
        patch.setattr(CandidateDrain, "end", ends)
        with pytest.raises(SystemExit):
            restore()
    assert "rolled_back" not in kinds(store)
    restore()
    state = record(store).state()
    assert (state.outcome, state.drained) == ("rolled_back", "pods_ended")


def test_before_the_first_patch_one_object_is_read(
    service: ServiceDouble, store: ModelStoreHook, restore: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the record is, it is not read before users are safe, and the InferenceService only once."""
    for _ in range(20):
        record(store).append(StageStarted(stage="canary"))
    asked: list[str] = []
    for owner, method in ((ServiceDouble, "get"), (ServiceDouble, "patch"), (ModelStoreHook, "entries")):
        real = getattr(owner, method)

        def counted(
            self: Any, *arguments: Any, real: Any = real, method: str = method, **options: Any
        ) -> Any:
            asked.append(method)
            return real(self, *arguments, **options)

        monkeypatch.setattr(owner, method, counted)
    restore()
    assert asked[:2] == ["get", "patch"]
    assert service.patches[0]["spec"] == {"predictor": {"canaryTrafficPercent": 0}}


def test_what_cannot_be_seen_does_not_count_as_safe(
    service: ServiceDouble, store: ModelStoreHook, restore: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A status that does not name the candidate's revision, and a conflict: the record still comes after the patch."""
    asked: list[str] = []
    see, patch, write = ServiceDouble.get, ServiceDouble.patch, ModelStoreHook.write_once

    def half_blind(self: ServiceDouble) -> Any:
        found = see(self)
        if found is not None and not self.patches:
            del found["status"]["components"]["predictor"]["latestCreatedRevision"]
        return found

    def patched(self: ServiceDouble, body: dict[str, Any], limit_s: float | None = None) -> bool:
        taken = patch(self, body, limit_s)
        asked.append("patched" if taken else "conflict")
        return taken

    def written(self: ModelStoreHook, *arguments: Any, **options: Any) -> bool:
        asked.append("written")
        return write(self, *arguments, **options)

    monkeypatch.setattr(ServiceDouble, "get", half_blind)
    monkeypatch.setattr(ServiceDouble, "patch", patched)
    monkeypatch.setattr(ModelStoreHook, "write_once", written)
    service.conflicts = 1
    restore()
    assert asked[:2] == ["conflict", "patched"]
    assert record(store).state().outcome == "rolled_back"


@pytest.fixture
def silent_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """S3's port takes connections and never answers, as that of a stopped server does."""
    with socket.socket() as server:
        server.bind((LOOPBACK, 0))
        server.listen(64)
        endpoint = f"http://{LOOPBACK}:{server.getsockname()[1]}"
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(endpoint))
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        yield server


def test_an_object_store_that_hangs_keeps_nobody_on_the_candidate(
    release_run: ReleaseRun, service: ServiceDouble, restore: Restore, silent_store: socket.socket
) -> None:
    """The weight is 0 while the first request to the store still waits for its answer."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            restore()
        except BaseException as error:
            failures.append(error)

    task = threading.Thread(target=run, daemon=True)
    task.start()
    assert release_run.stable is not None
    deadline = time.monotonic() + 60
    while users(service).get(release_run.storage_uri) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert users(service) == {release_run.stable.storage_uri: 100}
    assert task.is_alive()
    silent_store.close()
    task.join(60)
    assert len(failures) == 1


def test_anothers_canary_is_not_touched(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, restore: Restore
) -> None:
    """A teardown that is cleared long after its release finds another release's canary and leaves it alone."""
    restore()
    nine = ModelRegistry(store).storage_uri("digits", 9)
    reconcile(service, StartCanary(nine, 30, release_id="digits-9", version=9), timeout_s=60)  # type: ignore[arg-type]
    patches = len(service.patches)
    restore()
    assert len(service.patches) == patches
    assert users(service)[nine] == 30


@pytest.mark.parametrize("rendered", ["null", "{}", "[]", "not JSON", '{"model": "digits"}'])
def test_a_release_run_that_names_nothing_says_what_to_do(rendered: str) -> None:
    """There is nothing to act on: the error names the workflow that needs the model's name only."""
    with pytest.raises(InputMissingError, match="model_rollback"):
        RollbackAddress.parse(rendered)


def test_a_rollback_that_fails_says_so_in_the_record(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, restore: Restore
) -> None:
    """The cluster's API goes away in the middle: the stage has failed, and the retry finishes it."""
    service.away = True
    with pytest.raises(SlipwayError):
        restore()
    service.away = False
    restore()
    assert record(store).state().outcome == "rolled_back"
