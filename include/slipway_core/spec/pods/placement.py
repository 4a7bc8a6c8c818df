"""Where the pods of a release and of its model may run: nodes, taints, priority, runtime, and whence images come."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from slipway_core.spec.parts import SpecPart
from slipway_core.spec.pods.affinity import AnyAffinity
from slipway_core.spec.pods.names import LabelKey, LabelValue, ObjectName
from slipway_core.spec.pods.toleration import Toleration


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) != len(names):
        raise ValueError(f"must name each Secret once, not {', '.join(names)}")
    return names


class Placement(SpecPart):
    """What a pod says to the scheduler and to the kubelet of where it runs."""

    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that the node must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that the pod tolerates, such as those of nodes with GPUs."""
    affinity: AnyAffinity | None = None
    """Nodes and pods to prefer or avoid: the fields of Kubernetes' `affinity`; `nodeAffinity` or `node_affinity`."""
    priority_class: ObjectName | None = None
    """A PriorityClass of the cluster."""
    runtime_class: ObjectName | None = None
    """A RuntimeClass of the cluster, such as `nvidia` where that is not the nodes' default runtime."""
    image_pull_secrets: Annotated[tuple[ObjectName, ...], AfterValidator(_each_once)] = ()
    """Secrets of the pod's namespace with which images are pulled."""

    def placed(self) -> dict[str, Any]:
        """Return the fields of a pod's spec that it asks for, as Kubernetes spells them."""
        fields: dict[str, Any] = {
            "nodeSelector": dict(self.node_selector),
            "tolerations": [one.to_kubernetes() for one in self.tolerations],
            "affinity": None if self.affinity is None else self.affinity.to_kubernetes(),
            "priorityClassName": self.priority_class,
            "runtimeClassName": self.runtime_class,
            "imagePullSecrets": [{"name": name} for name in self.image_pull_secrets],
        }
        return {name: value for name, value in fields.items() if value}


PLACEMENT_KEYS = tuple(Placement.model_fields)
