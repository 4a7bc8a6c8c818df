"""model_revalidation over a real S3 protocol, a real tritonserver and an emulated cluster."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.lock import LockOwner, lock_key
from slipway_core.operations.layout import latency_reference_key
from slipway_core.publishing.manifest import FileEntry
from slipway_sandbox.services.triton import TritonServer
from tests.support.cluster.emulator import Emulator
from tests.support.release.revalidation_run import (
    RELEASE_FILE,
    ROWS,
    LiveService,
    RevalidationRun,
    linear_model,
    load,
    outcomes,
    served_config,
)

pytestmark = pytest.mark.timeout(600)

MANIFEST = "models/rent/1/manifest.json"
MODEL_FILE = "models/rent/1/repository/rent/1/model.onnx"


def test_what_changed_is_found_and_closed_when_it_is_put_right(
    run: RevalidationRun, store: ModelStoreHook, released: TritonServer
) -> None:
    """A byte in the bucket and a configuration changed by hand are two findings, once each, until both are gone."""
    first = run.look()
    assert outcomes(first) == {
        "live": "passed",
        "published": "passed",
        "configuration": "passed",
        "signature": "passed",
        "answers": "passed",
        "latency": "no_reference",
        "inputs": "left_out",
    }
    assert not run.findings()
    assert "page.html" in run.show()

    published, config = store.read(MODEL_FILE) or b"", served_config(released)
    load(released, {**config, "instance_group": [{"kind": "KIND_CPU", "count": 3}]})
    store.write(MODEL_FILE, published[:-1] + bytes([published[-1] ^ 1]))
    second = run.look()
    assert outcomes(second)["published"] == outcomes(second)["configuration"] == "differs"
    assert run.open() == {"1-published", "1-configuration"}
    told = run.findings()["1-published"].details
    assert MODEL_FILE in told[0]
    assert "instance_group" in run.findings()["1-configuration"].summary
    assert "1-published" in run.page()
    with pytest.raises(AirflowFailException, match="rent: 1-published"):
        run.show()
    assert "models/rent.html" in run.page("page.html")

    opened = run.findings()["1-published"].opened_at
    run.look()
    again = run.findings()["1-published"]
    assert (again.opened_at, again.times, len(run.findings())) == (opened, 2, 2)

    store.write(MODEL_FILE, published)
    load(released, config)
    last = run.look()
    assert set(outcomes(last).values()) == {"passed", "left_out"}
    assert last.is_as_released
    assert run.open() == set()
    closed = run.findings()["1-published"].closed
    assert closed is not None
    assert (closed.by, closed.run) == (None, run.run_id)
    assert "page.html" in run.show()


def test_what_has_no_reference_is_no_pass(run: RevalidationRun, server: TritonServer) -> None:
    """A version whose answers nobody has kept is held against its labels, and the page says that there is no more."""
    report = run.look()
    assert (outcomes(report)["answers"], report.is_as_released) == ("no_reference", False)
    assert "no reference" in run.page()
    assert run.open() == set()


def test_another_model_under_the_same_name_is_found_by_its_answers(
    run: RevalidationRun, store: ModelStoreHook, released: TritonServer
) -> None:
    """A server that serves other bytes than those of the release answers otherwise, whatever its configuration."""
    published = store.read(MODEL_FILE) or b""
    store.write(MODEL_FILE, linear_model(2.5))
    load(released, {**served_config(released), "parameters": {}})
    store.write(MODEL_FILE, published)
    report = run.look()
    assert (outcomes(report)["published"], outcomes(report)["answers"]) == ("passed", "differs")
    assert "agreement with the release's answers 0" in run.findings()["1-answers"].summary


def test_what_has_become_slow_is_found(
    run: RevalidationRun, store: ModelStoreHook, server: TritonServer
) -> None:
    """Against the version's first look, which is kept once; within the slack nothing is slow."""
    run.look()
    key = latency_reference_key("rent", 1)
    kept = json.loads(store.read(key) or b"")
    assert (kept["run"], kept["requests"]) == (run.run_id, 60)
    store.write(key, json.dumps({**kept, "p50_ms": 1e-6}).encode())
    assert outcomes(run.look())["latency"] == "passed"
    text = RELEASE_FILE.replace("latency_slack_ms: 10000", "latency_slack_ms: 0")
    (run.releases_dir / "rent.yaml").write_text(text, encoding="utf-8")
    assert outcomes(run.look())["latency"] == "differs"
    assert run.open() == {"1-latency"}


def recorded(store: ModelStoreHook, number: int, area: np.ndarray) -> None:
    """Somebody has recorded requests of users."""
    buffer = io.BytesIO()
    np.savez(buffer, area=area.astype(np.float32).reshape(-1, 1))
    store.write(f"recorded/rent/{number:04d}.npz", buffer.getvalue())


def test_inputs_that_drift_are_found_where_requests_are_recorded(
    run: RevalidationRun, store: ModelStoreHook, server: TritonServer
) -> None:
    """Held against the golden set; without enough of them there is no reference, and what is no record is said."""
    run.say(recorded_requests="recorded/rent/")
    assert outcomes(run.look())["inputs"] == "no_reference"
    usual = np.random.default_rng(1).uniform(0.5, ROWS + 0.5, 300)
    recorded(store, 1, usual)
    assert outcomes(run.look())["inputs"] == "passed"
    for number in range(2, 30):
        recorded(store, number, usual + 3 * ROWS)
    report = run.look()
    assert outcomes(report)["inputs"] == "differs"
    assert run.findings()["1-inputs"].details == ("input area",)
    store.write("recorded/rent/9999.npz", b"hostile")
    assert outcomes(run.look())["inputs"] == "could_not_check"
    assert run.findings()["1-inputs"].is_open


def test_a_manifest_that_was_changed_with_its_file_is_found_by_the_record(
    run: RevalidationRun, store: ModelStoreHook, server: TritonServer
) -> None:
    """Both agree with each other, and the record knows with which manifest the version was promoted."""
    other, manifest = linear_model(2.5), json.loads(store.read(MANIFEST) or b"")
    manifest["files"]["rent/1/model.onnx"] = FileEntry.of(other).model_dump()
    store.write(MODEL_FILE, other)
    store.write(MANIFEST, json.dumps(manifest).encode())
    assert outcomes(run.look())["published"] == "differs"
    assert "which was promoted" in run.findings()["1-published"].details[0]
    store.write(MANIFEST, b"hostile")
    assert outcomes(run.look())["published"] == "differs"


def test_a_person_closes_a_finding_with_a_reason(
    run: RevalidationRun, store: ModelStoreHook, server: TritonServer
) -> None:
    """It stays closed while the same is seen, says who and why, and opens anew when something else is seen."""
    store.write("models/rent/1/repository/rent/NOTES", b"somebody's notes")
    run.look()
    assert run.open() == {"1-published"}
    with pytest.raises(AirflowFailException, match="it is unknown who closes"):
        run.close("1-published", "notes are harmless", who=None)
    with pytest.raises(AirflowFailException, match="no finding '1-answers'"):
        run.close("1-answers", "a typing error")
    assert "by alice: notes are harmless" in run.close("1-published", "notes are harmless")
    run.look()
    assert run.open() == set()
    store.write("models/rent/1/repository/rent/MORE", b"more notes")
    run.look()
    assert run.open() == {"1-published"}
    (earlier,) = run.findings()["1-published"].earlier
    assert (earlier.closed.by, earlier.closed.reason) == ("alice", "notes are harmless")
    assert "notes are harmless" not in run.page()


def test_a_release_under_way_is_left_alone(
    run: RevalidationRun, store: ModelStoreHook, server: TritonServer, service: LiveService
) -> None:
    """By its lock while its run is under way, or by a canary in the cluster; a lock of an ended run is none."""
    store.write("models/rent/1/repository/rent/NOTES", b"somebody's notes")
    store.write(lock_key("rent"), LockOwner("rent-2", 2).to_bytes())
    run.running.add("rent-2")
    report = run.look()
    assert (report.standing, "rent-2" in report.why, report.checks) == ("in_flight", True, ())
    assert run.findings() == {}
    assert "left alone: a release is under way" in run.page()
    run.running.discard("rent-2")
    assert run.look().standing == "checked"
    service.serve(1, "http://nowhere", canaryTrafficPercent=10)
    assert run.look().standing == "in_flight"
    assert run.open() == {"1-published"}


def test_nothing_live_is_said(run: RevalidationRun, service: LiveService) -> None:
    """Without an InferenceService there is nothing to check; it is no finding."""
    report = run.look()
    assert (report.standing, report.is_as_released) == ("nothing_live", False)
    assert "nothing is live" in run.page()
    assert "page.html" in run.show()


def test_what_cannot_be_read_is_never_fine(
    run: RevalidationRun, server: TritonServer, store: ModelStoreHook
) -> None:
    """A live server that does not answer is `could not check`; after three runs a finding; back, it is closed."""
    server.stop()
    for _ in range(2):
        report = run.look()
        assert outcomes(report)["published"] == "passed"
        assert {outcomes(report)[one] for one in ("configuration", "signature", "answers", "latency")} == {
            "could_not_check"
        }
        assert run.open() == set()
        with pytest.raises(AirflowFailException, match="could not check"):
            run.show()
    run.look()
    assert run.open() == {f"unchecked-{one}" for one in ("configuration", "signature", "answers", "latency")}
    server.start()
    server.wait_ready(30)
    load(server)
    run.look()
    assert run.open() == set()


def test_a_cluster_that_is_away_is_not_nothing_live(
    run: RevalidationRun,
    server: TritonServer,
    emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who cannot ask what is live says so."""
    away = emulator.folder / "away"
    away.write_text(emulator.kubeconfig.read_text().replace(emulator.url, "http://127.0.0.1:9"))
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(away)}}
    with monkeypatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        report = run.look()
    assert report.standing == "could_not_check"
    assert report.not_checked
    assert run.findings()["unchecked-live"].status == "suspected"
    run.look()
    assert run.findings()["unchecked-live"].status == "closed"


def test_what_is_live_is_held_against_the_records(
    run: RevalidationRun, server: TritonServer, service: LiveService
) -> None:
    """A version that no record shows promoted, and what is not a published version at all, are findings."""
    service.serve(7, f"http://127.0.0.1:{server.ports.http}")
    report = run.look()
    assert outcomes(report)["live"] == outcomes(report)["published"] == "differs"
    assert {"7-live", "7-published"} <= run.open()
    service.serve(1, f"http://127.0.0.1:{server.ports.http}")
    run.look()
    assert run.open() == set()
