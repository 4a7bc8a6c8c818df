"""RunSmokeTestOperator: a real pod program in the emulated cluster, with a real tritonserver of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.smoke_test.run import RunSmokeTestOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.spec.release_file import parse_release_spec
from tests.support.cluster.emulator import NAMESPACE, Emulator
from tests.support.pods.smoke_models import WARMUP, published
from tests.support.release.pod_steps import first_event, pod_cluster, task_context
from tests.support.serving.triton_install import triton_install

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory, s3_endpoint: str) -> Iterator[Emulator]:
    """A cluster whose pods reach the object store, and whose images lie beside that of the server."""
    folder = tmp_path_factory.mktemp("cluster")
    install = triton_install()
    with pod_cluster(folder, s3_endpoint, "smoke-test") as cluster:
        server = cluster.folder / "images" / "triton"
        if not server.exists():
            server.symlink_to(install.venv)
        yield cluster


@pytest.fixture
def admitted(
    emulator: Emulator, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[ReleaseRun, str]]:
    """Publishes the model of a fault, and opens its release; returns the run and the manifest's digest."""
    extra = {"kube_config_path": str(emulator.kubeconfig), "namespace": NAMESPACE}
    cluster = json.dumps({"conn_type": "kubernetes", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", cluster)

    def admit(name: str, smoke_test: str, **model: Any) -> tuple[ReleaseRun, str]:
        objects, digest = published(name, **model)
        for key, content in objects.items():
            store.write(key, content)
        text = f"model: {name}\nsource: {{format: onnx}}\nsmoke_test: {smoke_test}\n"
        release_run = ReleaseRun(
            release_id=f"{name}-1",
            model=name,
            version=1,
            bucket=store.bucket,
            spec=parse_release_spec(text, f"{name}.yaml"),
            stable=None,
        )
        ReleaseRecord(store, name, 1, release_run.release_id).append(ReleaseStarted())
        return release_run, digest

    return admit


def operator_for(release_run: ReleaseRun, digest: str, *, deferrable: bool = False) -> RunSmokeTestOperator:
    """The operator, as it is once its templates are rendered."""
    return RunSmokeTestOperator(
        task_id="smoke_test",
        release=release_run.model_dump_json(),
        manifest_sha256=digest,
        deferrable=deferrable,
        poll_interval=0.5,
    )


def evidence(store: ModelStoreHook, release_run: ReleaseRun) -> dict[str, Any]:
    """What was kept for people; the page is there too."""
    assert store.exists(f"{release_run.evidence_prefix}smoke_test.html")
    found = store.read_json(f"{release_run.evidence_prefix}smoke_test.json")
    assert isinstance(found, dict)
    return found


def stages(store: ModelStoreHook, release_run: ReleaseRun) -> list[Any]:
    """The stages in the record."""
    record = ReleaseRecord(store, release_run.model, 1, release_run.release_id)
    return list(record.state().stages)


def test_a_sound_version_passes(
    admitted: Callable[..., tuple[ReleaseRun, str]], store: ModelStoreHook
) -> None:
    """Deferred while the pod works; then the record has the gate, passed for this manifest, and the evidence why."""
    release_run, digest = admitted("sound", "{loads: 1, requests: 250}", instances=2, more=WARMUP)
    context = task_context("smoke_test", release_run.release_id)
    with pytest.raises(TaskDeferred) as deferred:
        operator_for(release_run, digest, deferrable=True).execute(context)
    event = asyncio.run(asyncio.wait_for(first_event(deferred.value.trigger), 90))
    resumed = operator_for(release_run, digest, deferrable=True)
    getattr(resumed, deferred.value.method_name)(context, event)
    found = evidence(store, release_run)
    assert found["verdict"]["status"] == "pass", found["verdict"]
    (stage,) = stages(store, release_run)
    assert (stage.name, stage.outcome, stage.manifest_sha256) == ("smoke_test", "passed", digest)


def test_a_version_that_ends_its_server_is_refused(
    admitted: Callable[..., tuple[ReleaseRun, str]], store: ModelStoreHook
) -> None:
    """A refusal is not tried again and names the crash; the server's log is in the evidence."""
    release_run, digest = admitted("cold", "{loads: 2}", more=WARMUP)
    with pytest.raises(AirflowFailException, match="load 1 of 2 crashed"):
        operator_for(release_run, digest).execute(task_context("smoke_test", release_run.release_id))
    found = evidence(store, release_run)
    assert found["verdict"]["status"] == "fail"
    assert found["report"]["loads"][0]["log"]
    (stage,) = stages(store, release_run)
    assert (stage.outcome, "SIGSEGV" in stage.reason) == ("refused", True)


def test_without_a_smoke_test_nothing_is_recorded(
    admitted: Callable[..., tuple[ReleaseRun, str]], store: ModelStoreHook
) -> None:
    """`smoke_test: null` leaves it out: no pod, no stage that could count as passed."""
    release_run, digest = admitted("uneven", "null")
    operator_for(release_run, digest).execute(task_context("smoke_test", release_run.release_id))
    assert stages(store, release_run) == []
