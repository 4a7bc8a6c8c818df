"""The manifest of a release's pod: what the release file says of where it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import (
    ApiClient,
    V1ContainerState,
    V1ContainerStateWaiting,
    V1ContainerStatus,
    V1Pod,
    V1PodStatus,
)

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ConvertModelOperator
from slipway.operators.pod import ReleasePodOperator
from slipway.operators.smoke_test.run import RunSmokeTestOperator
from slipway.release_run import ReleaseRun
from slipway_core.errors import SpecError
from slipway_core.spec.pods.names import is_subdomain
from slipway_core.spec.release_file import ReleaseSpec, apply_overrides, parse_release_spec
from slipway_sandbox.cluster.admission.pod_security import violations

if TYPE_CHECKING:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

_SPEC = parse_release_spec("model: ranker\nsource: {}\n", "ranker.yaml")
_LANGUAGE_MODEL = parse_release_spec(
    "model: chat\nsource: {format: checkpoint}\n" + ("conversion: {target: tensorrt_llm}\n"), "chat.yaml"
)
# Where a pod may write.
_FOLDERS = [{"name": "TMPDIR", "value": "/tmp"}, {"name": "HOME", "value": "/tmp"}]
_GPU_POD: dict[str, Any] = {
    "timeout_s": 3600,
    "startup_timeout_s": 900,
    "resources": {"cpu": 4, "memory": "32Gi", "gpu": 2, "ephemeral_storage": "400Gi"},
    "node_selector": {"karpenter.k8s.aws/instance-gpu-name": "l4"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "pod_anti_affinity": {
            "required_during_scheduling_ignored_during_execution": [
                {"topology_key": "kubernetes.io/hostname"}
            ]
        }
    },
    "priority_class": "batch",
    "runtime_class": "nvidia",
    "image_pull_secrets": ["registry"],
    "service_account": "slipway-convert",
    "shm_size": "8Gi",
    "scratch_size": "300Gi",
    "secret_env": {"HF_TOKEN": {"secret": "hub", "key": "token"}},
}


@pytest.fixture(autouse=True)
def _nothing_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training leaves no configuration."""
    monkeypatch.setattr(ModelStoreHook, "read", lambda *_, **__: None)


def _manifest(conversion: dict[str, Any], base: ReleaseSpec = _SPEC, **arguments: Any) -> dict[str, Any]:
    release_run = ReleaseRun(
        release_id="manual__1",
        model=base.model,
        version=3,
        bucket="models",
        spec=apply_overrides(base, {"conversion": conversion}, "the test"),
        stable=None,
    )
    operator = ConvertModelOperator(task_id="convert", release=release_run.model_dump_json(), **arguments)
    operator.render_template_fields({"run_id": "r 1"})  # type: ignore[typeddict-item]
    runs = _run_by(operator)
    # Only asked whether it is inside the cluster, and for the namespace.
    runs.__dict__["hook"] = SimpleNamespace(is_in_cluster=False, get_namespace=lambda: "slipway")
    manifest: dict[str, Any] = ApiClient().sanitize_for_serialization(runs.build_pod_request_obj())
    return manifest


def _run_by(operator: ReleasePodOperator) -> KubernetesPodOperator:
    """Airflow's operator, as ours makes it when it is executed."""
    release_run = operator.release_run
    return operator.execution_of(operator.describe(release_run), release_run).operator


def test_a_gpu_pod() -> None:
    """GPU limits, disk, nodes, priority, runtime, account, volumes and secrets, as Kubernetes spells them."""
    spec = _manifest(_GPU_POD)["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "32Gi", "ephemeral-storage": "400Gi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "32Gi", "ephemeral-storage": "400Gi", "nvidia.com/gpu": "2"},
    }
    assert spec["nodeSelector"] == {"karpenter.k8s.aws/instance-gpu-name": "l4"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert spec["affinity"] == {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]
        }
    }
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("batch", "nvidia")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["serviceAccountName"] == "slipway-convert"
    # 900 s to begin, 3600 s to work, 60 s for the last word.
    assert spec["activeDeadlineSeconds"] == 4560
    assert spec["volumes"] == [
        {"name": "scratch", "emptyDir": {"sizeLimit": "300Gi"}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
    ]
    assert container["volumeMounts"] == [
        {"name": "scratch", "mountPath": "/tmp"},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]
    assert container["env"] == [
        *_FOLDERS,
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    ]


def test_a_plain_pod_asks_for_nothing_special() -> None:
    """Without a word in the release file: no GPU, no secret, a volume for temporary files, the account `slipway`."""
    spec = _manifest({})["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"},
        "limits": {"memory": "2Gi", "ephemeral-storage": "20Gi"},
    }
    assert spec["volumes"] == [{"name": "scratch", "emptyDir": {"sizeLimit": "20Gi"}}]
    assert container["env"] == _FOLDERS
    assert spec["serviceAccountName"] == "slipway"


@pytest.mark.parametrize(("conversion", "base"), [({}, _SPEC), (_GPU_POD, _SPEC), ({}, _LANGUAGE_MODEL)])
def test_a_pod_has_no_more_rights_than_it_needs(conversion: dict[str, Any], base: ReleaseSpec) -> None:
    """The restricted standard and more, whatever the image's own user is: NVIDIA's images run as root."""
    manifest = _manifest(conversion, base)
    assert violations(manifest) == []
    spec = manifest["spec"]
    (container,) = spec["containers"]
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (10001, 10001)
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()


def test_a_large_scratch_volume_raises_the_limit_of_the_disk() -> None:
    """A volume above the kind's own limit is not the reason for which its pod is evicted."""
    (container,) = _manifest({"scratch_size": "1Ti"})["spec"]["containers"]
    assert container["resources"]["limits"]["ephemeral-storage"] == "1Ti"


def test_an_engine_gets_a_pod_that_can_build_it() -> None:
    """`target: tensorrt` alone: a GPU, memory that its tools' limit fits into, two hours, half an hour to begin."""
    spec = _manifest({"target": "tensorrt"})["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"},
        "limits": {"memory": "16Gi", "nvidia.com/gpu": "1", "ephemeral-storage": "100Gi"},
    }
    assert spec["activeDeadlineSeconds"] == 1800 + 7200 + 60
    given = container["args"]
    assert given[given.index("--memory-mib") + 1] == "14336"
    assert given[given.index("--timeout-s") + 1] == "7200"


def test_a_language_model_gets_a_gpu_for_each_of_its_parts() -> None:
    """`target: tensorrt_llm` alone: 96 GiB, of which the builders may take 84; a GPU for each of tp times pp."""
    spec = _manifest({"tp_size": 2, "pp_size": 2}, _LANGUAGE_MODEL)["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "8", "memory": "96Gi", "nvidia.com/gpu": "4", "ephemeral-storage": "1Gi"},
        "limits": {"memory": "96Gi", "nvidia.com/gpu": "4", "ephemeral-storage": "500Gi"},
    }
    given = container["args"]
    assert given[given.index("--memory-mib") + 1] == "86016"


def test_a_pod_encrypts_as_the_release_file_says() -> None:
    """What the pod writes is encrypted as the version: it is told by a variable, and only where something is asked."""
    encryption = {"publish": {"encryption": {"algorithm": "aws:kms", "kms_key_id": "a-key"}}}
    manifest = _manifest({}, apply_overrides(_SPEC, encryption, "the test"))
    *folders, variable = manifest["spec"]["containers"][0]["env"]
    assert folders == _FOLDERS
    assert variable == {
        "name": "SLIPWAY_S3_ENCRYPTION",
        "value": '{"SSEKMSKeyId": "a-key", "ServerSideEncryption": "aws:kms"}',
    }
    assert _manifest({})["spec"]["containers"][0]["env"] == _FOLDERS


def test_the_operator_waits_as_long_for_the_pod_to_begin_as_the_release_file_says() -> None:
    """A node that must come first, and a large image, are waited for; neither is a pod that did not start."""
    release_run = ReleaseRun(
        release_id="r", model="ranker", version=3, bucket="models", stable=None,
        spec=apply_overrides(_SPEC, {"conversion": {"startup_timeout_s": 900}}, "the test"),
    )  # fmt: skip
    operator = _run_by(ConvertModelOperator(task_id="convert", release=release_run.model_dump_json()))
    assert (operator.startup_timeout_seconds, operator.schedule_timeout_seconds) == (900, 900)


@pytest.mark.parametrize(
    "conversion",
    [
        {"shm_size": "lots"},
        {"resources": {"ephemeral_storage": "lots"}},
        {"scratch_size": "2Gi", "resources": {"ephemeral_storage": "1Gi"}},
        {"secret_env": {"1BAD": {"secret": "hub", "key": "token"}}},
    ],
)
def test_what_kubernetes_would_refuse_is_refused_before(conversion: dict[str, Any]) -> None:
    """A size that is none, or a variable's name that can be none, is an error in the release file."""
    with pytest.raises(SpecError):
        _manifest(conversion)


def _release_run_with_variants() -> ReleaseRun:
    variants = {"whole": {}, "quick": {"precision": "int8", "timeout_s": 60}}
    return ReleaseRun(
        release_id="manual__1",
        model="ranker",
        version=3,
        bucket="models",
        spec=apply_overrides(_SPEC, {"conversion": {"variants": variants}}, "the test"),
        stable=None,
    )


def test_a_variant_has_a_pod_and_a_place_of_its_own() -> None:
    """Two variants' pods have other names, options and destinations, and other stages in the record."""
    release = _release_run_with_variants().model_dump_json()
    pods = {}
    for name in ("whole", "quick"):
        operator = ConvertModelOperator(task_id="convert", variant=name, release=release)
        pod, runs = operator.describe(operator.release_run), _run_by(operator)
        pods[name] = (runs.name, pod.stage, runs.active_deadline_seconds)
        arguments = runs.arguments
        assert arguments[arguments.index("--destination") + 1] == f"s3://models/work/ranker/3/convert/{name}/"
        assert arguments[arguments.index("--precision") + 1] == {"whole": "fp32", "quick": "int8"}[name]
    assert pods["whole"][0] != pods["quick"][0]
    assert pods["quick"][1:] == ("convert-quick", 600 + 60 + 60)
    assert pods["whole"][1] == "convert-whole"


def test_what_the_release_file_does_not_say_may_be_said_by_the_dag() -> None:
    """`pod_options` are KubernetesPodOperator's own arguments, rendered; what the step decides is not among them."""
    options = {"annotations": {"team/run": "{{ run_id }}"}, "priority_class_name": "batch"}
    manifest = _manifest({}, pod_options=options)
    assert manifest["metadata"]["annotations"] == {"team/run": "r 1"}
    assert manifest["spec"]["priorityClassName"] == "batch"
    with pytest.raises(TypeError, match="image"):
        _manifest({}, pod_options={"image": "another"})


def test_the_name_of_a_pod_is_the_one_that_the_cluster_knows() -> None:
    """A stage's name may have an underscore, a pod's may not: messages name the pod as `kubectl` finds it."""
    release = _release_run_with_variants().model_dump_json()
    operator = RunSmokeTestOperator(task_id="smoke_test", release=release, manifest_sha256="0" * 64)
    runs = _run_by(operator)
    assert runs.name is not None
    assert runs.name.startswith("smoke-test-")
    assert is_subdomain(runs.name)


def test_airflow_takes_the_operator_that_runs_the_pod_for_a_task() -> None:
    """Airflow refuses, or warns of, an operator that another one executes, unless it is told of it as of a task."""
    release_run = _release_run_with_variants()
    operator = ConvertModelOperator(
        task_id="convert",
        variant="whole",
        release=release_run.model_dump_json(),
        pod_options={"allow_nested_operators": False},
    )
    execution = operator.execution_of(operator.describe(operator.release_run), operator.release_run)
    executed: list[Any] = []
    execution.operator.execute_sync = executed.append  # type: ignore[method-assign]
    context: Any = {}
    execution.start(context)
    assert executed == [context]


def test_what_a_pod_waits_for_is_known_when_it_is_gone() -> None:
    """Waited for in the worker, a pod that does not begin is deleted: its image was not there when it was made."""
    release_run = _release_run_with_variants()
    operator = ConvertModelOperator(task_id="convert", variant="whole", release=release_run.model_dump_json())
    execution = operator.execution_of(operator.describe(operator.release_run), operator.release_run)
    waiting = V1ContainerStateWaiting(reason="ImagePullBackOff", message="no such image")
    status = V1ContainerStatus(
        name="base",
        image="i",
        image_id="",
        ready=False,
        restart_count=0,
        state=V1ContainerState(waiting=waiting),
    )
    seen = V1Pod(status=V1PodStatus(container_statuses=[status]))

    async def fail(**_: Any) -> None:
        raise AirflowException("it did not begin")

    manager = SimpleNamespace(await_pod_start=fail, read_pod=lambda _: seen)
    execution.operator.__dict__["pod_manager"] = manager
    execution.operator.log_events_on_startup = False
    with pytest.raises(AirflowException):
        execution.operator.await_pod_start(V1Pod())
    assert "no such image" in str(execution.silent_end("s3://models/result.json"))
