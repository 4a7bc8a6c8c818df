"""Nodes, taints, affinity, priority, runtime and Secrets of images, held against Kubernetes' own rules."""

from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec

MINIMAL = "model: yolo\nsource: {format: onnx}\n"
PREFERRED = "preferred_during_scheduling_ignored_during_execution"
REQUIRED = "required_during_scheduling_ignored_during_execution"


def rollout(text: str) -> ReleaseSpec:
    return parse_release_spec(f"{MINIMAL}rollout: {{{text}}}\n", "yolo.yaml")


def test_the_predictor_says_all_that_kubernetes_asks() -> None:
    """Each key becomes the field of a pod's spec that Kubernetes has for it; what is not written is left out."""
    placed = rollout(
        "node_selector: {accelerator: l4}, priority_class: online, runtime_class: nvidia, "
        "image_pull_secrets: [registry], "
        "tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}], "
        f"affinity: {{node_affinity: {{{PREFERRED}: [{{weight: 1, preference: {{match_expressions: "
        "[{key: capacity, operator: In, values: [spot]}]}}]}}"
    ).rollout.placed()
    assert placed == {
        "nodeSelector": {"accelerator": "l4"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {
                            "matchExpressions": [{"key": "capacity", "operator": "In", "values": ["spot"]}]
                        },
                    }
                ]
            }
        },
        "priorityClassName": "online",
        "runtimeClassName": "nvidia",
        "imagePullSecrets": [{"name": "registry"}],
    }
    assert rollout("min_replicas: 1").rollout.placed() == {}


def test_an_affinity_copied_from_a_manifest_is_taken() -> None:
    """Kubernetes' own spelling means the same, and keys of labels are left as they are."""
    term = (
        "{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {appName: yolo, app_name: yolo}}}"
    )
    copied = rollout(
        f"affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}"
    )
    assert copied.rollout.placed()["affinity"] == {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"appName": "yolo", "app_name": "yolo"}},
                }
            ]
        }
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node_selector: {accelerator: true}", "text"),
        ("node_selector: {a b: c}", "a key such as accelerator"),
        ("node_selector: {accelerator: -l4-}", "a label's value"),
        ("node_selector: {UPPER.com/gpu: l4}", "a key such as accelerator"),
        ("node_selectors: {accelerator: l4}", "Did you mean `rollout.node_selector`?"),
        ("toleration: []", "Did you mean `rollout.tolerations`?"),
        ("tolerations: [{key: gpu, operator: Exist}]", "one of Exists, Equal"),
        ("tolerations: [{key: gpu, operator: Exists, value: x}]", "takes no `value`"),
        ("tolerations: [{value: x}]", "needs `operator: Exists`"),
        ("tolerations: [{key: gpu, effect: NoScheduling}]", "NoSchedule, PreferNoSchedule, NoExecute"),
        (
            "tolerations: [{key: gpu, operator: Exists, toleration_seconds: 3}]",
            "needs `effect: NoExecute`",
        ),
        (
            "tolerations: [{key: gpu, effect: NoExecute, tolerationSeconds: 3}]",
            "Did you mean `rollout.tolerations[0].toleration_seconds`",
        ),
        ("tolerations: {key: gpu, operator: Exists}", "a list"),
        ("affinity: {node_afinity: {}}", "Did you mean `rollout.affinity.node_affinity`?"),
        (f"affinity: {{node_affinity: {{{REQUIRED}: {{node_selector_terms: []}}}}}}", "at least 1"),
        (
            f"affinity: {{pod_affinity: {{{REQUIRED}: [{{label_selector: {{}}}}]}}}}",
            "topology_key` is missing",
        ),
        (
            f"affinity: {{node_affinity: {{{PREFERRED}: [{{weight: 101, preference: {{}}}}]}}}}",
            "less than or equal to 100",
        ),
        ("priority_class: Online!", "the name of an object in the cluster"),
        ("runtime_class: nvidia_runtime", "the name of an object in the cluster"),
        ("image_pull_secrets: registry", "a list"),
        ("image_pull_secrets: [registry, registry]", "each Secret once"),
        ("min_replicas: 0", "greater than or equal to 1"),
        ("min_replicas: 3, max_replicas: 2", "`max_replicas: 2` is below `min_replicas: 3`"),
        (
            "deployment_mode: Standard, min_replicas: 3, max_replicas: 4",
            "no room for a canary in Standard mode",
        ),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_where_it_is_read(text: str, told: str) -> None:
    """The error says what is wrong, by the rule of Kubernetes, or which key was meant."""
    with pytest.raises(SpecError) as raised:
        rollout(text)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("requirement", "told"),
    [
        ("{key: gpus, operator: Gt, values: [many]}", "one whole number in quotes"),
        ("{key: gpus, operator: In}", "needs `values`"),
        ("{key: gpus, operator: Exists, values: [x]}", "takes no `values`"),
        ("{key: gpus, operator: In, values: ['a b']}", "must be values of labels"),
    ],
)
def test_a_requirement_of_nodes_has_the_values_of_its_operator(requirement: str, told: str) -> None:
    """`Gt` and `Lt` compare with one number, `In` and `NotIn` with one value or more, the others with none."""
    terms = f"{{node_selector_terms: [{{match_expressions: [{requirement}]}}]}}"
    with pytest.raises(SpecError) as raised:
        rollout(f"affinity: {{node_affinity: {{{REQUIRED}: {terms}}}}}")
    assert told in str(raised.value)


@pytest.mark.parametrize("section", ["conversion", "smoke_test", "benchmark"])
def test_every_pod_of_a_release_can_be_placed(section: str) -> None:
    """The same keys stand in each section that describes a pod."""
    keys = "{runtime_class: nvidia, priority_class: batch, image_pull_secrets: [registry]}"
    spec = parse_release_spec(f"{MINIMAL}{section}: {keys}\n", "yolo.yaml")
    pod = getattr(spec, section)
    found = (pod.runtime_class, pod.priority_class, pod.image_pull_secrets)
    assert found == ("nvidia", "batch", ("registry",))
