"""How near a converted model's answers must be to the source's: the rule, and what it is where nothing is said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """The rule that an output must meet; one `measure` decides, the others are only reported.

    tolerance: at least `within_min` of the rows have |source - converted| <= abs + rel * |source| in every
    element. cosine: each row's vector has a cosine similarity of at least `cosine_min` with the source's.
    top_k: in at least `agreement_min` of the rows the `top_k` best classes are the source's. Outputs that are
    no vectors of fractions (labels, text, one number a row) are held to equality or to the tolerance.
    """

    measure: str = "tolerance"
    abs_tolerance: float = 1e-4
    rel_tolerance: float = 1e-3
    within_min: float = 1.0
    cosine_min: float = 0.999
    top_k: int = 1
    agreement_min: float = 0.99

    def least_share(self, measure: str) -> float:
        """Return the least share of the rows that a measure must find near enough."""
        return {"tolerance": self.within_min, "top_k": self.agreement_min}.get(measure, 1.0)
