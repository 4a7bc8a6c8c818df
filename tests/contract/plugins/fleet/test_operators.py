"""The tasks of `fleet_release` with published versions, and servers that read their repository from the bucket."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_triton.client.event_loop import run
from slipway.fleet.context import FleetContext, members_of
from slipway.fleet.release import release_fleet
from slipway.fleet.status import parity_now
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.fleet.release import (
    PlaceFleetVersionOperator,
    ReleaseToFleetOperator,
    SettleFleetOperator,
)
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway_core.errors import ServerUnavailableError
from slipway_core.fleet.document import Before, FleetDocument, RunNote
from slipway_core.publishing.manifest import FileEntry
from slipway_core.record.kinds import (
    CandidateVerified,
    ReleaseStarted,
    StageFinished,
    VersionRejected,
)
from slipway_core.record.requirements import Requirements
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.models import CONFIG, table_model
from tests.support.serving.triton_install import triton_install
from tests.support.store.connections import CREDENTIALS
from tests.support.store.publication import Publication
from tests.support.triton_provider.servers import typed_connection

pytestmark = pytest.mark.timeout(600)

FLEET_FILE = """
fleet: edge
model: digits
connections: [edge_0, edge_1]
policy: {unreachable_s: 3, call_limit_s: 3, quiet_s: 0.1, settle_limit_s: 3}
"""
RELEASE_FILE = "model: digits\nsource: {format: onnx}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the fleet's file and the release file."""
    (tmp_path / "fleets").mkdir()
    (tmp_path / "releases").mkdir()
    (tmp_path / "fleets" / "edge.yaml").write_text(FLEET_FILE)
    (tmp_path / "releases" / "digits.yaml").write_text(RELEASE_FILE)
    return tmp_path


@pytest.fixture
def publish(store: ModelStoreHook, prepare_version: Callable[..., Publication]) -> Callable[..., str]:
    """Publishes a version that multiplies by a factor, with a golden set; returns its manifest's digest."""

    def publish(version: int, factor: float) -> str:
        config = CONFIG.format(name="digits", output_type="TYPE_FP32", max_batch_size=16, more="")
        one = prepare_version(version, model=table_model(factor), config=config.encode())
        buffer = io.BytesIO()
        np.savez(buffer, x=np.array([[1, 2], [3, 4]], np.float32), label=np.array([0, 1]))
        store.write(one.golden, buffer.getvalue())
        files = {"golden.npz": FileEntry.of(buffer.getvalue())}
        source = one.manifest.source.model_copy(update={"files": files})
        manifest = one.manifest.model_copy(update={"source": source})
        registry = ModelRegistry(store)
        registry.publish(manifest, one.sources, one.golden)
        return registry.require_with_digest("digits", version)[1]

    return publish


def passed(store: ModelStoreHook, version: int, digest: str) -> ReleaseRecord:
    """Write the record of a version that has passed its gates."""
    record = ReleaseRecord(store, "digits", version, f"digits-{version}")
    record.append(ReleaseStarted(required=Requirements(), triggered_by="alice"))
    for gate in Requirements().gates:
        record.append(StageFinished(stage=gate, outcome="passed", manifest_sha256=digest))
    record.append(CandidateVerified(manifest_sha256=digest))
    return record


@contextmanager
def servers(
    endpoint: str, bucket: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[TritonServer]]:
    """Run two servers whose model repository is the fleet's, in the bucket."""
    environment = {
        "AWS_ACCESS_KEY_ID": CREDENTIALS["login"],
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS["password"],
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with ExitStack() as stack:
        found = []
        for number in range(2):
            server = TritonServer(
                triton_install(),
                f"s3://{endpoint}/{bucket}/fleets/edge/repository",
                TritonPorts.free(),
                mode="explicit",
                environment=environment,
                log_path=folder / f"log{number}",
                exit_timeout_s=1,
            )
            server.start()
            stack.callback(server.stop)
            server.wait_ready(30)
            connection = typed_connection(server.ports.http, protocol="http", host=LOOPBACK)
            monkeypatch.setenv(f"AIRFLOW_CONN_EDGE_{number}", connection)
            found.append(server)
        yield found


def context(run_id: str, notes: list[str] | None = None) -> Any:
    """Return what Airflow gives a task; no other run is under way.

    :param notes: takes what is told for the run's note.
    """
    told = [] if notes is None else notes
    ti = SimpleNamespace(
        get_dagrun_state=lambda dag_id, run_id: "failed", xcom_push=lambda key, note: told.append(note)
    )
    dag_run = SimpleNamespace(triggering_user_name="alice")
    return {"run_id": run_id, "ti": ti, "dag_run": dag_run, "dag": SimpleNamespace(dag_id="fleet_release")}


def task(kind: type[Any], folder: Path, bucket: str, version: int) -> Any:
    """Return a task of the DAG, its templates rendered."""
    return kind(
        task_id="task",
        releases_dir=str(folder / "releases"),
        fleets=str(folder / "fleets"),
        fleet="edge",
        version=str(version),
        bucket=bucket,
    )


def test_published_version_comes_to_all_servers(
    store: ModelStoreHook,
    folder: Path,
    publish: Callable[..., str],
    s3_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Laid in place, released, and the same on all by their own word; what fails in the middle is settled."""
    digests = {version: publish(version, float(version + 1)) for version in (1, 2)}
    for version, digest in digests.items():
        passed(store, version, digest)
    bucket = store.bucket
    assert "was put in place" in task(PlaceFleetVersionOperator, folder, bucket, 1).execute(context("one"))
    assert "is already in place" in task(PlaceFleetVersionOperator, folder, bucket, 1).execute(context("one"))
    parts = FleetContext(folder / "fleets", folder / "releases", "edge", bucket)
    with servers(s3_endpoint, bucket, folder, monkeypatch):
        notes: list[str] = []
        told = task(ReleaseToFleetOperator, folder, bucket, 1).execute(context("one", notes))
        assert told["outcome"] == "committed"
        (note,) = notes
        assert note.startswith("edge 1: on 2 of 2 servers [Page](")
        parity = run(parity_now(parts, members_of(parts.file)))
        assert parity.agree
        assert {one.manifest_sha256 for one in parity.servers} == {digests[1]}
        with pytest.raises(AirflowSkipException):
            task(SettleFleetOperator, folder, bucket, 1).execute(context("one"))

        task(PlaceFleetVersionOperator, folder, bucket, 2).execute(context("two"))
        release = parts.release(2, "two", "alice", lambda run_id: False)

        class KilledError(BaseException):
            pass

        def killed() -> None:
            raise KilledError

        object.__setattr__(release, "permit", killed)
        with pytest.raises(KilledError):
            run(release_fleet(release))
        settled = task(SettleFleetOperator, folder, bucket, 2).execute(context("two", notes))
        assert notes[-1].startswith("edge 2: interrupted, then settled: rolled back")
        assert settled["outcome"] == "taken_back"
        assert {one["version"] for one in settled["servers"].values()} == {1}
        again = task(ReleaseToFleetOperator, folder, bucket, 2).execute(context("three"))
        assert again["outcome"] == "committed"


def test_version_that_was_rejected_is_not_even_laid_in_place(
    store: ModelStoreHook, folder: Path, publish: Callable[..., str]
) -> None:
    """Neither a version without a record, nor one that was rejected after its gates had passed."""
    digest = publish(1, 2.0)
    place, notes = task(PlaceFleetVersionOperator, folder, store.bucket, 1), list[str]()
    with pytest.raises(AirflowFailException, match="a record of the version's gates"):
        place.execute(context("one", notes))
    assert notes[0].startswith("edge 1: not released: this version may not go to a fleet: it has no record")
    record = passed(store, 1, digest)
    record.append(VersionRejected(reason="wrong labels", by="anna"))
    with pytest.raises(AirflowFailException, match="rejected by anna"):
        place.execute(context("one"))
    assert store.entries("fleets/edge/") == []


def test_way_back_needs_nothing_of_what_was_published(
    store: ModelStoreHook, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the version, its golden set and its record are gone, the servers are still asked; the next try goes on."""
    closed = TritonPorts.free().http
    for number in range(2):
        connection = typed_connection(closed, protocol="http", host=LOOPBACK)
        monkeypatch.setenv(f"AIRFLOW_CONN_EDGE_{number}", connection)
    left = RunNote(
        run_id="two",
        holder="killed",
        version=2,
        manifest_sha256=f"{2:064x}",
        phase="commit",
        began=datetime(2026, 1, 1, tzinfo=UTC),
        before={"edge_0": Before(), "edge_1": Before()},
    )
    kept = FleetDocument(fleet="edge", model="digits", run=left)
    store.write("fleets/edge/fleet.json", kept.to_bytes())
    with pytest.raises(ServerUnavailableError, match="could not be restored on edge_0, edge_1"):
        task(SettleFleetOperator, folder, store.bucket, 2).execute(context("two"))
    with pytest.raises(AirflowSkipException):
        task(SettleFleetOperator, folder, store.bucket, 2).execute(context("another"))


def test_files_that_changed_after_they_were_laid_in_place_are_refused(
    store: ModelStoreHook, folder: Path, publish: Callable[..., str]
) -> None:
    """All servers would load them and answer alike: what they were told to serve is not what they would serve."""
    passed(store, 1, publish(1, 2.0))
    place = task(PlaceFleetVersionOperator, folder, store.bucket, 1)
    place.execute(context("one"))
    assert "is already in place" in place.execute(context("one"))
    model = "fleets/edge/repository/digits_v1/1/model.onnx"
    assert model in {one.key for one in store.entries("fleets/edge/repository/")}
    store.write(model, table_model(7.0))
    with pytest.raises(AirflowFailException, match="is not the file that its manifest names"):
        place.execute(context("two"))
    store.delete(model)
    with pytest.raises(AirflowFailException, match="is missing"):
        place.execute(context("three"))
