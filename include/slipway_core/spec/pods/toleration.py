"""A taint of nodes that a pod bears."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.parts import SpecPart
from slipway_core.spec.pods.names import LabelKey, LabelValue

_INT64 = 2**63


class Toleration(SpecPart):
    """A taint that a pod may ignore."""

    key: LabelKey | None = None
    """Left out, with `operator: Exists`: every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Default: all of them."""
    toleration_seconds: Annotated[int, Field(ge=-_INT64, lt=_INT64)] | None = None
    """With `NoExecute`: for how long; default: forever."""

    @model_validator(mode="after")
    def _as_kubernetes_takes_it(self) -> Self:
        if self.key is None and self.operator != "Exists":
            raise ValueError("without `key` a toleration needs `operator: Exists`: it is of every taint")
        if self.operator == "Exists" and self.value:
            raise ValueError(f"`operator: Exists` takes no `value`, but there is {self.value!r}; remove one")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError(
                f"`toleration_seconds` needs `effect: NoExecute`, but the effect is {self.effect or 'left out'}"
            )
        return self

    def to_kubernetes(self) -> dict[str, str | int]:
        """Return the toleration as a pod's manifest spells it."""
        fields = {
            "key": self.key,
            "operator": self.operator,
            "value": self.value,
            "effect": self.effect,
            "tolerationSeconds": self.toleration_seconds,
        }
        return {name: value for name, value in fields.items() if value is not None}
