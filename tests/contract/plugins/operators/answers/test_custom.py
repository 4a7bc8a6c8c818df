"""`kind: custom`: a voice detector's answers, scored by the example's scorer in an emulated pod."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from onnx import TensorProto, helper

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.validate import ValidateModelOperator
from slipway_core.spec.release_file import ReleaseSpec, load_release_spec
from tests.support.cluster.emulator import NAMESPACE, Emulator
from tests.support.pods.onnx_models import model_of
from tests.support.release.pod_steps import first_event, pod_cluster, task_context
from tests.support.release.staged_answers import Release, stages_of

pytestmark = pytest.mark.timeout(600)

EXAMPLE = Path(__file__).parents[5] / "examples" / "custom_scorer"
ROWS, WINDOW = 80, 16
FLOAT = TensorProto.FLOAT


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory, s3_endpoint: str) -> Iterator[Emulator]:
    """An emulated cluster whose pods reach the object store."""
    with pod_cluster(tmp_path_factory.mktemp("cluster"), s3_endpoint, "score") as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def kubernetes(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection to that cluster."""
    extra = {"kube_config_path": str(emulator.kubeconfig), "namespace": NAMESPACE}
    connection = json.dumps({"conn_type": "kubernetes", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection)


def detector(gain: float) -> bytes:
    """Return a detector: the louder a window, the more it is speech; with a gain below 0 the other way round."""
    nodes = [
        helper.make_node("ReduceMean", ["signal"], ["loudness"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["loudness", "gain"], ["scaled"]),
        helper.make_node("Sigmoid", ["scaled"], ["speech"]),
    ]
    inputs = [helper.make_tensor_value_info("signal", FLOAT, ["rows", WINDOW])]
    outputs = [helper.make_tensor_value_info("speech", FLOAT, ["rows", 1])]
    return model_of(nodes, inputs, outputs, [helper.make_tensor("gain", FLOAT, [1], [gain])])


def voice(
    store: ModelStoreHook, version: int, gain: float, stable: int | None = None, scorer: str = ""
) -> Release:
    """Publish a version of the detector, and load it on staging."""
    random = np.random.default_rng(7)
    label = np.arange(ROWS) % 2
    loud = np.where(label == 1, 1.0, -1.0)[:, np.newaxis]
    signal = (loud + random.normal(scale=0.4, size=(ROWS, WINDOW))).astype(np.float32)
    signature = {
        "inputs": [{"name": "signal", "datatype": "FP32", "shape": [-1, WINDOW]}],
        "outputs": [{"name": "speech", "datatype": "FP32", "shape": [-1, 1]}],
    }
    release = Release(store, spec(scorer), version, stable)
    return release.publish({"model.onnx": detector(gain)}, signature, signal=signal, label=label)


def spec(scorer: str = "") -> ReleaseSpec:
    """Return the example's release file, with another scorer beside it where one is given."""
    found = load_release_spec(EXAMPLE / "voice.yaml")
    files = {**found.files, **({"voice_scorer.py": scorer} if scorer else {})}
    return ReleaseSpec.model_validate_json(
        json.dumps({**found.model_dump(mode="json", exclude_unset=True), "files": files})
    )


def operator_of(release: Release, *, deferrable: bool = False) -> ValidateModelOperator:
    """Return the operator, as it is once its templates are rendered."""
    return ValidateModelOperator(
        task_id="validate",
        release=release.rendered,
        staging=json.dumps(release.prepared),
        deferrable=deferrable,
        poll_interval=0.5,
    )


def context(release: Release) -> Any:
    """Return the task's context, outside of any scheduler."""
    return task_context("validate", release.release_run.release_id)


def test_the_figures_of_a_scorer_decide(store: ModelStoreHook, hook: TritonHook) -> None:
    """A good detector passes with its equal error rate and agreement; one that answers the other way round fails."""
    voice(store, 1, gain=3.0)
    good = voice(store, 2, gain=3.2, stable=1).prepare().load()
    operator_of(good).execute(context(good))
    report = good.report
    assert (report["kind"], report["outcome"], report["stable_version"]) == ("custom", "pass", 1)
    assert report["numbers"]["eer_percent"] == 0.0
    assert report["numbers"]["agreement"] == 1.0
    (eer,) = [one for one in report["expectations"] if one["kwargs"].get("column") == "eer_percent"]
    assert (eer["decision"], eer["method"]) == ("met", "bootstrap")
    assert [one["about"] for one in report["suites"]] == ["golden", "answers"]
    assert "What the scorer found" in good.page
    assert [one.outcome for one in stages_of(good) if one.name == "validate"] == ["passed"]

    bad = voice(store, 3, gain=-3.0, stable=1).prepare().load()
    with pytest.raises(AirflowFailException, match=r"`eer_percent` is at most 15.*eer_percent 100"):
        operator_of(bad).execute(context(bad))
    assert bad.report["outcome"] == "fail"
    assert any("as by the stable version" in reason for reason in bad.report["reasons"])
    assert [one.outcome for one in stages_of(bad) if one.name == "validate"] == ["refused"]


def test_it_waits_without_a_worker_and_may_be_run_again(store: ModelStoreHook, hook: TritonHook) -> None:
    """The pod is waited for in the triggerer; the task comes back in another process, and knows what was asked."""
    release = voice(store, 1, gain=3.0).prepare().load()
    with pytest.raises(TaskDeferred):
        operator_of(release, deferrable=True).execute(context(release))
    # The worker died after that: the task is run again, finds its pod, and asks both versions again.
    with pytest.raises(TaskDeferred) as deferred:
        operator_of(release, deferrable=True).execute(context(release))
    event = asyncio.run(first_event(deferred.value.trigger))
    operator_of(release, deferrable=True).trigger_reentry(context(release), event)
    assert release.report["outcome"] == "pass"
    assert release.report["numbers"]["agreement"] is None
    assert [one.outcome for one in stages_of(release) if one.name == "validate"][-1] == "passed"


def test_a_scorer_that_fails_fails_the_stage(store: ModelStoreHook, hook: TritonHook) -> None:
    """What the scorer raised is the task's error, which no retry mends; nothing is reported as scored."""
    release = voice(store, 1, gain=3.0, scorer="def score(*_): raise KeyError('speech')").prepare().load()
    with pytest.raises(AirflowFailException, match=r"The scorer failed.*KeyError"):
        operator_of(release).execute(context(release))
    assert not store.exists(f"{release.release_run.evidence_prefix}validation.json")
    assert [one.outcome for one in stages_of(release) if one.name == "validate"] == ["failed"]
