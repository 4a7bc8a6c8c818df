"""How near a converted model's answers must be to the source's."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import Field

from slipway_core.spec.parts import Share, SpecPart, Text
from slipway_rules.parity import Rule

NotNegative = Annotated[float, Field(ge=0)]
Measure = Literal["tolerance", "cosine", "top_k"]
_DEFAULT = Rule()
_HALF_PRECISION = {"abs_tolerance": 5e-3, "rel_tolerance": 1e-2}


class ParityRule(SpecPart):
    """What an output is held to; `measure` names what decides, the other figures are reported all the same."""

    measure: Measure = "tolerance"
    """`tolerance`: each element within abs + rel * |source|. `cosine`: the similarity of each row's vector.
    `top_k`: the best classes of each row. Outputs that are no vectors of fractions, such as labels, are held
    to equality or to the tolerance, whatever is written here.
    """
    abs_tolerance: NotNegative = _DEFAULT.abs_tolerance
    rel_tolerance: NotNegative = _DEFAULT.rel_tolerance
    """Left out, of a conversion to fp16: 5e-3 + 1e-2, since each number has three decimal digits there."""
    within_min: Share = _DEFAULT.within_min
    """`tolerance`: the least share of the rows that must be within it."""
    cosine_min: Share = _DEFAULT.cosine_min
    """`cosine`: the least similarity, in every row."""
    top_k: Annotated[int, Field(ge=1, le=1000)] = _DEFAULT.top_k
    """`top_k`: how many of the best classes must be the same; their order does not count."""
    agreement_min: Share = _DEFAULT.agreement_min
    """`top_k`: the least share of the rows that must agree."""


class ParityRules(ParityRule):
    """How far the converted model's answers may be from the source's, over the golden set."""

    outputs: dict[Text, ParityRule] = Field(default_factory=dict)
    """Outputs with other rules. Keys that are left out there are those of the release, not
    the defaults.
    """

    def of_half_precision(self) -> Self:
        """Return the rules of a conversion to fp16: tolerances that are left out are those of that precision."""
        derived = {
            name: value for name, value in _HALF_PRECISION.items() if name not in self.model_fields_set
        }
        return self.filled(**derived)

    def arguments(self) -> list[str]:
        """Return the arguments that every converter understands."""
        rule = self.model_dump(exclude={"outputs"})
        given = ["--parity-measure", rule.pop("measure")]
        for key, value in rule.items():
            given += [f"--{key.replace('_', '-')}", str(value)]
        for name, other in sorted(self.outputs.items()):
            said = {"output": name, **other.model_dump(exclude_unset=True)}
            given += ["--output-parity", json.dumps(said, sort_keys=True)]
        return given
