"""The manifest of a release's pod: what the release file says of where it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowFailException
from kubernetes.client import ApiClient
from slipway.operators.convert import ConvertModelOperator
from slipway.ticket import ReleaseTicket

from include.model_release.errors import ModelInvalidError, ParityRefusedError, SlipwayError, SpecError
from include.model_release.spec import apply_overrides, parse_release_spec

_SPEC = parse_release_spec("model: ranker\nsource: {}\n", "ranker.yaml")
_GPU_POD: dict[str, Any] = {
    "timeout_s": 3600,
    "resources": {"cpu": 4, "memory": "32Gi", "gpu": 2},
    "node_selector": {"karpenter.k8s.aws/instance-gpu-name": "l4"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "service_account": "slipway-convert",
    "shm_size": "8Gi",
    "secret_env": {"HF_TOKEN": {"secret": "hub", "key": "token"}},
}


def _manifest(conversion: dict[str, Any]) -> dict[str, Any]:
    ticket = ReleaseTicket(
        release_id="manual__1",
        model="ranker",
        version=3,
        bucket="models",
        spec=apply_overrides(_SPEC, {"conversion": conversion}, "the test"),
        stable=None,
    )
    operator = ConvertModelOperator(task_id="convert")
    # Only asked whether it is inside the cluster, and for the namespace.
    operator.__dict__["hook"] = SimpleNamespace(is_in_cluster=False, get_namespace=lambda: "slipway")
    operator._describe_pod(ticket)
    pod = KubernetesPodOperator.build_pod_request_obj(operator)
    manifest: dict[str, Any] = ApiClient().sanitize_for_serialization(pod)
    return manifest


def test_a_gpu_pod() -> None:
    """GPU limits, node selector, tolerations, service account, shared memory and secrets, as Kubernetes spells them."""
    spec = _manifest(_GPU_POD)["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "32Gi", "nvidia.com/gpu": "2"},
    }
    assert spec["nodeSelector"] == {"karpenter.k8s.aws/instance-gpu-name": "l4"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert spec["serviceAccountName"] == "slipway-convert"
    assert spec["activeDeadlineSeconds"] == 3660
    assert spec["volumes"] == [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    ]
    assert container["volumeMounts"] == [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    assert container["env"] == [
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    ]


def test_a_plain_pod_asks_for_nothing_special() -> None:
    """Without a word in the release file: no GPU, no volume, no secret, the account `slipway`."""
    spec = _manifest({})["spec"]
    (container,) = spec["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert not spec.get("volumes")
    assert not container.get("volumeMounts")
    assert not container.get("env")
    assert spec["serviceAccountName"] == "slipway"


@pytest.mark.parametrize(
    "conversion",
    [{"shm_size": "lots"}, {"secret_env": {"1BAD": {"secret": "hub", "key": "token"}}}],
)
def test_what_kubernetes_would_refuse_is_refused_before(conversion: dict[str, Any]) -> None:
    """A size that is none, or a variable's name that can be none, is an error in the release file."""
    with pytest.raises(SpecError):
        _manifest(conversion)


def _ticket_with_variants() -> ReleaseTicket:
    variants = {"whole": {}, "quick": {"precision": "int8", "timeout_s": 60}}
    return ReleaseTicket(
        release_id="manual__1",
        model="ranker",
        version=3,
        bucket="models",
        spec=apply_overrides(_SPEC, {"conversion": {"variants": variants}}, "the test"),
        stable=None,
    )


def test_a_variant_has_a_pod_and_a_place_of_its_own() -> None:
    """Two variants' pods have other names, options and destinations, and other stages in the record."""
    release = _ticket_with_variants().model_dump_json()
    pods = {}
    for name in ("whole", "quick"):
        operator = ConvertModelOperator(task_id="convert", variant=name, release=release)
        operator._describe_pod(operator.ticket)
        pods[name] = (operator.name, operator.stage, operator.active_deadline_seconds)
        arguments = operator.arguments
        assert arguments[arguments.index("--destination") + 1] == f"s3://models/work/ranker/3/convert/{name}/"
        assert arguments[arguments.index("--precision") + 1] == {"whole": "fp32", "quick": "int8"}[name]
    assert pods["whole"][0] != pods["quick"][0]
    assert pods["quick"][1:] == ("convert-quick", 120)
    assert pods["whole"][1] == "convert-whole"


@pytest.mark.parametrize(
    "error", [ParityRefusedError("row 17 differs"), ModelInvalidError("no int8 of this")]
)
@pytest.mark.parametrize("variant", ["quick", ""])
def test_one_of_several_that_cannot_be_released_is_left_out(
    monkeypatch: pytest.MonkeyPatch, variant: str, error: SlipwayError
) -> None:
    """The only conversion of a release fails its task; one of several is recorded as left out, and nothing fails."""
    told: list[tuple[str, str]] = []

    def ends(operator: ConvertModelOperator, *_: Any) -> None:
        raise error

    record = SimpleNamespace(append=lambda kind, **data: told.append((kind, data.get("outcome", ""))))
    monkeypatch.setattr(ConvertModelOperator, "_finished", ends)
    operator = ConvertModelOperator(
        task_id="convert", variant=variant, release=_ticket_with_variants().model_dump_json()
    )
    operator.__dict__.update(record=record, store=SimpleNamespace(delete=lambda key: None))
    if variant:
        assert operator.execute({}) is None  # type: ignore[typeddict-item,func-returns-value]
        outcome = "left_out"
    else:
        with pytest.raises(AirflowFailException):
            operator.execute({})  # type: ignore[typeddict-item]
        outcome = "refused" if isinstance(error, ParityRefusedError) else "failed"
    assert told == [("stage_started", ""), ("stage_finished", outcome)]
