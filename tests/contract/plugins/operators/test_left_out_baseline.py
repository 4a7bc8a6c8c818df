"""A stable version that a real Triton refuses to load: the release goes on, and the gates say what they leave out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.benchmark import BenchmarkModelOperator
from slipway.operators.publish import PublishModelOperator
from slipway.operators.staging import LoadBaselineOperator, LoadCandidateOperator, PrepareStagingOperator
from slipway.operators.validate import ValidateModelOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway_core.publishing.manifest import FileEntry
from slipway_core.triton_config.pbtxt import from_pbtxt, to_pbtxt
from tests.support.release import scale_release
from tests.support.release.release_steps import load_of
from tests.support.release.scale_release import MODEL, convert, release_run_of, run, state_of
from tests.support.serving.ensembles import python_files

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def release_run(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> ReleaseRun:
    """Version 2 is published and is to follow version 1, whose program this server cannot run any more."""
    first, second = release_run_of(store), release_run_of(store, 2, stable=1)
    broken = {**python_files(2.0), "model.py": b"import a_library_of_long_ago\n"}
    with monkeypatch.context() as old:
        old.setattr(scale_release, "python_files", lambda factor: broken)
        convert(store, first)
    run(PublishModelOperator, first)
    convert(store, second, factor=2.0)
    run(PublishModelOperator, second)
    return second


def test_gates_go_on_without_a_baseline_that_does_not_load(
    store: ModelStoreHook, release_run: ReleaseRun, hook: TritonHook
) -> None:
    """The candidate is validated alone; record, report and page say that it was not compared, and why."""
    prepared = run(PrepareStagingOperator, release_run)
    assert prepared["baseline"]["version"] == 1
    run(LoadCandidateOperator, release_run, **load_of(prepared["candidate"]))
    staging = run(
        LoadBaselineOperator, release_run, staging=json.dumps(prepared), **load_of(prepared["baseline"])
    )
    assert staging == {**prepared, "baseline": None, "not_compared": staging["not_compared"]}
    assert "version 1, which is live" in staging["not_compared"]
    assert "a_library_of_long_ago" in staging["not_compared"]
    run(ValidateModelOperator, release_run, staging=json.dumps(staging))
    report = store.read_json(f"{release_run.evidence_prefix}validation.json") or {}
    assert (report["outcome"], report["stable_version"]) == ("warn", None)
    assert report["not_compared"] == staging["not_compared"]
    assert b"Not compared: version 1" in (store.read(f"{release_run.evidence_prefix}validation.html") or b"")
    stages = {stage.name: stage for stage in state_of(store, release_run).stages}
    assert {name: stage.outcome for name, stage in stages.items()} == {
        "publish": "passed",
        "stage": "passed",
        "baseline": "left_out",
        "validate": "passed",
    }
    assert stages["baseline"].reason == staging["not_compared"]


def test_baseline_that_loads_is_compared_with(store: ModelStoreHook, hook: TritonHook) -> None:
    """Staging goes on to the gates as it was prepared."""
    for number, stable in ((1, None), (2, 1)):
        release_run = release_run_of(store, number, stable=stable)
        convert(store, release_run)
        run(PublishModelOperator, release_run)
    prepared: dict[str, Any] = run(PrepareStagingOperator, release_run)
    operator = LoadBaselineOperator(
        task_id="load",
        release=release_run.model_dump_json(),
        staging=json.dumps(prepared),
        **load_of(prepared["baseline"]),
    )
    assert operator.execute(scale_release.CONTEXT) == prepared
    assert hook.ready_versions(f"{MODEL}_baseline") == {1}


def test_other_tensors_than_those_of_a_version_left_out_are_refused(
    store: ModelStoreHook, release_run: ReleaseRun, hook: TritonHook
) -> None:
    """Clients meet other tensors whether or not the stable version is on staging: the manifests tell."""
    prepared = run(PrepareStagingOperator, release_run)
    run(LoadCandidateOperator, release_run, **load_of(prepared["candidate"]))
    manifest = ModelRegistry(store).require(MODEL, 1)
    renamed = manifest.signature.outputs[0].model_copy(update={"name": "z"})
    other = manifest.signature.model_copy(update={"outputs": (renamed,)})
    store.write(
        f"models/{MODEL}/1/manifest.json", manifest.model_copy(update={"signature": other}).to_bytes()
    )
    left_out = {**prepared, "baseline": None, "not_compared": "an engine of old"}
    with pytest.raises(AirflowFailException, match=r"differs from that of version 1.*output `z`.*is gone"):
        run(ValidateModelOperator, release_run, staging=json.dumps(left_out))
    page = (store.read(f"{release_run.evidence_prefix}validation.html") or b"").decode()
    assert "not there" in page
    assert "Not compared: an engine of old" in page


def test_without_a_manifest_the_configuration_of_the_live_version_tells(
    store: ModelStoreHook, release_run: ReleaseRun, hook: TritonHook
) -> None:
    """A live version that Slipway has not published has tensors all the same: those in the config.pbtxt it serves."""
    store.delete(f"models/{MODEL}/1/manifest.json")
    prepared = run(PrepareStagingOperator, release_run)
    assert "is not published" in prepared["not_compared"]
    run(LoadCandidateOperator, release_run, **load_of(prepared["candidate"]))
    run(ValidateModelOperator, release_run, staging=json.dumps(prepared))
    key = f"models/{MODEL}/1/repository/{MODEL}/config.pbtxt"
    config = (store.read(key) or b"").decode()
    assert '"y"' in config
    store.write(key, config.replace('"y"', '"z"').encode())
    with pytest.raises(AirflowFailException, match=r"differs from that of version 1.*output `z`.*is gone"):
        run(ValidateModelOperator, release_run, staging=json.dumps(prepared))


@pytest.mark.parametrize("config", [None, b"no configuration", b'name: "scale"\nbackend: "python"\n'])
def test_a_live_version_of_unknown_tensors_ends_the_stage_as_inconclusive(
    store: ModelStoreHook, release_run: ReleaseRun, hook: TritonHook, config: bytes | None
) -> None:
    """What could not be compared has not passed: the release ends, and says what would tell."""
    key = f"models/{MODEL}/1/repository/{MODEL}/config.pbtxt"
    store.delete(f"models/{MODEL}/1/manifest.json")
    store.delete(key)
    if config is not None:
        store.write(key, config)
    prepared = run(PrepareStagingOperator, release_run)
    run(LoadCandidateOperator, release_run, **load_of(prepared["candidate"]))
    with pytest.raises(
        AirflowFailException, match=r"version 1, which is live, can continue is unknown.*Put back"
    ):
        run(ValidateModelOperator, release_run, staging=json.dumps(prepared))
    stages = {stage.name: stage.outcome for stage in state_of(store, release_run).stages}
    assert stages["validate"] == "inconclusive"


def test_what_a_version_left_out_took_beside_its_tensors_is_compared(
    store: ModelStoreHook, release_run: ReleaseRun, hook: TritonHook
) -> None:
    """Its configuration is published with it: larger batches than the candidate takes are refused as on the server."""
    prepared = run(PrepareStagingOperator, release_run)
    run(LoadCandidateOperator, release_run, **load_of(prepared["candidate"]))
    manifest = ModelRegistry(store).require(MODEL, 1)
    key = f"models/{MODEL}/1/repository/{MODEL}/config.pbtxt"
    config = from_pbtxt(store.read(key) or b"", key)
    larger = to_pbtxt({**config, "max_batch_size": config["max_batch_size"] + 1}).encode()
    files = {**manifest.files, f"{MODEL}/config.pbtxt": FileEntry.of(larger)}
    store.write(key, larger)
    store.write(f"models/{MODEL}/1/manifest.json", manifest.model_copy(update={"files": files}).to_bytes())
    left_out = {**prepared, "baseline": None, "not_compared": "an engine of old"}
    with pytest.raises(AirflowFailException, match=r"`max_batch_size` was"):
        run(ValidateModelOperator, release_run, staging=json.dumps(left_out))


def test_benchmark_says_what_it_did_not_compare(store: ModelStoreHook, release_run: ReleaseRun) -> None:
    """The verdict that is kept has the reason; the limits of the release file decide alone."""
    staging = {
        "candidate": {"name": MODEL, "version": 2, "config": {}},
        "baseline": None,
        "manifest_sha256": "0" * 64,
        "not_compared": "an engine of old",
    }
    operator = BenchmarkModelOperator(
        task_id="benchmark",
        release=release_run.model_dump_json(),
        staging=json.dumps(staging),
        namespace="models",
    )
    latencies = dict.fromkeys(("avg_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms"), 1.0)
    counts = {"round": 0, "concurrency": 1, "requests": 10, "errors": 0, "throughput_rps": 100.0}
    operator.judge(release_run, {"measurements": [{"role": "candidate", **counts, **latencies}]})
    verdict = store.read_json(f"{release_run.evidence_prefix}benchmark/verdict.json") or {}
    assert (verdict["status"], verdict["not_compared"]) == ("pass", "an engine of old")
