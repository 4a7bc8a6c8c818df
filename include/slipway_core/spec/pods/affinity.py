"""Near which nodes and pods a pod is to run, as Kubernetes' `affinity` has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from slipway_core.spec.parts import DnsLabel, SpecPart
from slipway_core.spec.pods.names import LabelKey, LabelValue, is_label_value

_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")
_AFTER_UNDERSCORE = re.compile(r"_([a-z])")
# Their keys are a cluster's, not Kubernetes'.
_LABELS = frozenset({"match_labels", "matchLabels"})
_INT64 = 2**63


def _renamed(value: Any, spelling: Callable[[Any], Any], of_many: Callable[[Iterable[Any]], Any]) -> Any:
    """Return `value` with each field's name in another spelling, and its lists as `of_many` makes them.

    What a cluster calls its labels stays.
    """
    if isinstance(value, Mapping):
        return {
            spelling(name): below if name in _LABELS else _renamed(below, spelling, of_many)
            for name, below in value.items()
        }
    if isinstance(value, list | tuple):
        return of_many(_renamed(one, spelling, of_many) for one in value)
    return value


def _to_snake(name: object) -> object:
    return _CAPITAL.sub(lambda found: f"_{found[1].lower()}", name) if isinstance(name, str) else name


def _to_camel(name: str) -> str:
    return _AFTER_UNDERSCORE.sub(lambda found: found[1].upper(), name)


class _Requirement(SpecPart):
    key: LabelKey
    values: tuple[str, ...] = ()


class NodeRequirement(_Requirement):
    """What a node's label must be."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        _require_values(self.operator, self.values)
        if self.operator in ("Gt", "Lt"):
            if len(self.values) != 1 or not _is_whole(self.values[0]):
                raise ValueError(
                    f'`operator: {self.operator}` takes one whole number in quotes, such as ["4"]'
                )
        elif not all(is_label_value(value) for value in self.values):
            raise ValueError(f"`values` must be values of labels, but are {list(self.values)}")
        return self


class FieldRequirement(_Requirement):
    """What a node's name must be."""

    key: Literal["metadata.name"]
    operator: Literal["In", "NotIn"]

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if len(self.values) != 1:
            raise ValueError(f"`match_fields` takes one name of a node in `values`, not {len(self.values)}")
        return self


class LabelRequirement(_Requirement):
    """What a pod's or a namespace's label must be."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        _require_values(self.operator, self.values)
        if not all(is_label_value(value) for value in self.values):
            raise ValueError(f"`values` must be values of labels, but are {list(self.values)}")
        return self


class NodeSelectorTerm(SpecPart):
    """All of these at once."""

    match_expressions: tuple[NodeRequirement, ...] = ()
    match_fields: tuple[FieldRequirement, ...] = ()


class NodeSelector(SpecPart):
    """Any of these."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1)]


Weight = Annotated[int, Field(ge=1, le=100)]


class PreferredNodes(SpecPart):
    """Nodes that are better than others."""

    weight: Weight
    preference: NodeSelectorTerm


class NodeAffinity(SpecPart):
    """On which nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] = ()


class LabelSelector(SpecPart):
    """Pods or namespaces with these labels."""

    match_labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    match_expressions: tuple[LabelRequirement, ...] = ()


class PodAffinityTerm(SpecPart):
    """Pods, and how near is near: nodes with the same value of the label `topology_key`."""

    topology_key: LabelKey
    label_selector: LabelSelector | None = None
    namespaces: tuple[DnsLabel, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[LabelKey, ...] = ()
    mismatch_label_keys: tuple[LabelKey, ...] = ()


class PreferredPods(SpecPart):
    """Pods to be near to, or far from, where that can be."""

    weight: Weight
    pod_affinity_term: PodAffinityTerm


class PodAffinity(SpecPart):
    """Near which pods, or far from which."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] = ()


class Affinity(SpecPart):
    """The pod's `affinity`, with the names of Kubernetes in either spelling: `nodeAffinity` is `node_affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

    def to_kubernetes(self) -> dict[str, Any]:
        """Return it as a pod's manifest spells it, without what was not written."""
        written = self.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        found: dict[str, Any] = _renamed(written, _to_camel, list)
        return found


# As people copy it from a manifest. Behind a validator values are Python's, whose lists are tuples here.
AnyAffinity = Annotated[Affinity, BeforeValidator(lambda value: _renamed(value, _to_snake, tuple))]


def _require_values(operator: str, values: tuple[str, ...]) -> None:
    if operator in ("Exists", "DoesNotExist") and values:
        raise ValueError(f"`operator: {operator}` takes no `values`, but there are {list(values)}")
    if operator in ("In", "NotIn") and not values:
        raise ValueError(f"`operator: {operator}` needs `values`")


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]{1,19}", text) is not None and -_INT64 <= int(text) < _INT64
