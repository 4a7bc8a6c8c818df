"""The cluster, examined at the emulated one: well, and each line made to fail once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, CustomObjectsApi

from slipway.doctor.examination import chosen_examinations
from slipway.doctor.examining import examine
from slipway.doctor.installation import Installation
from slipway_core.doctor.kserve import CONFIG_MAP, DISALLOWED
from slipway_core.doctor.line import Line, Status
from slipway_core.rollout.guard_heartbeat import NAME, heartbeat
from slipway_guard.cluster import Cluster, connect
from slipway_guard.heartbeat import Heartbeat
from slipway_kubernetes.client import KubernetesObjects
from tests.support.cluster.emulator import Emulator, pod
from tests.support.waiting import wait_until

RELEASE = """
model: digits
source: {format: onnx}
rollout: {namespace: models, deployment_mode: MODE}
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A cluster with KServe's namespace, in which nothing is deployed."""
    emulator = Emulator(tmp_path_factory.mktemp("cluster"), namespaces=["models", "kserve", "default"])
    emulator.start()
    yield emulator
    emulator.stop()


@pytest.fixture
def installation(emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """A connection to it, and a release file."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(emulator.kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    made = Installation("models", tmp_path)
    release(made, "Knative")
    return made


def release(installation: Installation, mode: str, more: str = "") -> None:
    """Write the release file."""
    text = RELEASE.replace("MODE", mode) + more
    (installation.releases_dir / "digits.yaml").write_text(text, encoding="utf-8")


def examined(installation: Installation, name: str) -> dict[str, Line]:
    """Return the lines of an examination by what they are about."""
    return {line.what: line for line in examine(installation, chosen_examinations((name,))).lines}


@pytest.fixture
def configure(emulator: Emulator) -> Iterator[Callable[..., None]]:
    """Write KServe's ConfigMap; it is gone after the test."""
    core = CoreV1Api(emulator.api_client())
    namespace, name = CONFIG_MAP

    def write(**parts: Any) -> None:
        data = {key: json.dumps(value) for key, value in parts.items()}
        core.create_namespaced_config_map(namespace, {"metadata": {"name": name}, "data": data})

    yield write
    core.delete_namespaced_config_map(name, namespace)


def test_the_rights_that_are_there_are_ok_and_the_secrets_are_refused(installation: Installation) -> None:
    """By a review of each verb, and by one act."""
    found = examined(installation, "rights")
    assert {line.status for line in found.values()} == {Status.OK}
    assert "refused" in found["secrets in kube-system"].found


def test_a_right_that_is_lacking_is_found_with_the_command(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its verbs, and why it matters."""
    may = KubernetesObjects.may

    def without_patch(self: KubernetesObjects, verb: str, plural: str, *where: str, **more: str) -> bool:
        return (verb, plural) != ("patch", "leases") and may(self, verb, plural, *where, **more)

    monkeypatch.setattr(KubernetesObjects, "may", without_patch)
    line = examined(installation, "rights")["leases.coordination.k8s.io in models"]
    assert line.status is Status.FAILED
    assert line.found.endswith("may not patch")
    assert "guard" in line.why
    assert line.remedy.startswith("kubectl -n models create role")


def test_an_account_that_may_read_secrets_has_too_much(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What must be refused was not."""
    monkeypatch.setattr(KubernetesObjects, "reads_secrets", lambda self, namespace: True)
    assert examined(installation, "rights")["secrets in kube-system"].status is Status.FAILED


def test_a_cluster_that_does_not_answer_leaves_the_rights_unknown(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is never ok."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {token: t}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n",
        encoding="utf-8",
    )
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    for name in ("rights", "kserve", "guard", "images"):
        assert {line.status for line in examined(installation, name).values()} == {Status.UNKNOWN}


def test_a_connection_that_leads_to_no_cluster_has_failed(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kubeconfig is not there."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(tmp_path / "none")}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    for name in ("rights", "kserve", "guard", "images"):
        (line,) = examined(installation, name).values()
        assert (line.status, "leads to no cluster" in line.found) == (Status.FAILED, True)


def test_a_config_map_that_cannot_be_seen_is_unknown(installation: Installation) -> None:
    """Not everybody may read it."""
    found = examined(installation, "kserve")
    assert found["inferenceservice-config"].status is Status.UNKNOWN
    assert found["InferenceService models/digits"].status is Status.OK


WELL = {
    "storageInitializer": {"image": "kserve/storage-initializer:v0.20.0"},
    "ingress": {"enableGatewayApi": True},
    "inferenceService": {"serviceAnnotationDisallowedList": list(DISALLOWED)},
}


@pytest.mark.parametrize("mode", ["Knative", "Standard"])
def test_kserve_as_the_page_asks_for_it_is_well(
    installation: Installation, configure: Callable[..., None], mode: str
) -> None:
    """Version, gateway or annotations, and the first release's preflight."""
    release(installation, mode)
    configure(**WELL)
    assert {line.status for line in examined(installation, "kserve").values()} == {Status.OK}


@pytest.mark.parametrize(
    ("mode", "change", "what", "status"),
    [
        ("Knative", {"inferenceService": {}}, "disallowed annotations", Status.WARNING),
        ("Knative", {"storageInitializer": {"image": "kserve/storage-initializer:v0.15.2"}}, "version",
         Status.WARNING),
        ("Knative", {"storageInitializer": {"image": "mirror/initializer"}}, "version", Status.UNKNOWN),
        ("Standard", {"ingress": {}}, "Gateway API", Status.FAILED),
        ("Standard", {"ingress": {}}, "InferenceService models/digits", Status.FAILED),
        ("Standard", {"ingress": {"enableGatewayApi": True, "disableIngressCreation": True}}, "Gateway API",
         Status.FAILED),
    ],
    ids=["annotations", "old", "no version", "gateway", "preflight", "no routes"],
)  # fmt: skip
def test_each_line_of_kserve_fails(
    installation: Installation,
    configure: Callable[..., None],
    mode: str,
    change: dict[str, Any],
    what: str,
    status: Status,
) -> None:
    """One setting at a time."""
    release(installation, mode)
    configure(**{**WELL, **change})
    line = examined(installation, "kserve")[what]
    assert line.status is status
    assert line.remedy


def test_without_a_model_gateway_and_metrics_are_unknown(installation: Installation) -> None:
    """Nothing could be looked at."""
    assert examined(installation, "gateway")["gateway"].status is Status.UNKNOWN
    found = examined(installation, "metrics")
    assert found["a live look"].status is Status.UNKNOWN
    assert examined(installation, "release_files")["canary of digits"].status is Status.SKIPPED


def test_a_release_file_that_cannot_be_read_has_failed(installation: Installation) -> None:
    """The others are looked at all the same."""
    (installation.releases_dir / "broken.yaml").write_text("model: other\n", encoding="utf-8")
    found = examined(installation, "release_files")
    assert found["release file of broken"].status is Status.FAILED
    assert found["release file of broken"].remedy.startswith("slipway lint ")
    assert found["canary of digits"].status is Status.SKIPPED


def test_a_guard_that_looks_is_ok_and_one_that_has_stopped_has_failed(
    installation: Installation, emulator: Emulator
) -> None:
    """By the Lease that the guard itself writes."""
    assert examined(installation, "guard")["guard of models"].status is Status.FAILED
    guard = Cluster(connect(str(emulator.kubeconfig)), ("models",))
    beating = Heartbeat(guard)
    beating.beat()
    beating.finish(30.0)
    line = examined(installation, "guard")["guard of models"]
    assert line.status is Status.OK
    guard.renew_heartbeat("models", heartbeat("models", "gone", datetime.now(UTC) - timedelta(minutes=5)))
    line = examined(installation, "guard")["guard of models"]
    assert (line.status, "gone looked last" in line.found) == (Status.FAILED, True)
    CustomObjectsApi(emulator.api_client()).delete_namespaced_custom_object(
        "coordination.k8s.io", "v1", "models", "leases", NAME
    )


def test_an_image_that_a_pod_runs_is_ok_and_one_that_is_not_pulled_has_failed(
    installation: Installation, emulator: Emulator
) -> None:
    """What a node has done is the proof; a name without a registry is unknown."""
    core = CoreV1Api(emulator.api_client())
    image = "slipway/tool:0.1.0"
    release(
        installation,
        "Knative",
        f"conversion: {{image: '{image}'}}\nbenchmark: {{image: 'no.such/image:1'}}\n",
    )
    bad = pod("bad", "true")
    bad["spec"]["containers"][0]["image"] = "no.such/image:1"
    for one in (pod("good", "sleep", "600"), bad):
        core.create_namespaced_pod("default", one)

    def found(name: str) -> bool:
        return examined(installation, "images")[f"image {name}"].status is not Status.UNKNOWN

    wait_until(lambda: found(image) and found("no.such/image:1"), "both pods tell of their images")
    lines = examined(installation, "images")
    assert lines[f"image {image}"].status is Status.OK
    assert lines["image no.such/image:1"].status is Status.FAILED
    assert lines["image slipway/smoke-test:0.1.0"].status is Status.UNKNOWN
    for name in ("good", "bad"):
        core.delete_namespaced_pod(name, "default", grace_period_seconds=0)


def test_the_clock_of_the_cluster_is_compared(installation: Installation) -> None:
    """The emulator runs here, so it has ours; the store is not there."""
    assert examined(installation, "clocks")["clock of Kubernetes"].status is Status.OK
