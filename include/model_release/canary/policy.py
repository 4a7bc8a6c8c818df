"""What the judge holds against a candidate: how sure it must be, and how much worse is still good enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from include.model_release.errors import SpecError

# More requests or milliseconds than there will be.
_PLENTY = 1e12
_FOUND_LIMIT = 80


@dataclass(frozen=True)
class AnalysisPolicy:
    """Margins in percent, latencies in ms; a ceiling of None is no ceiling. Raises SpecError for values out
    of range.

    `burst_correlation` is how strongly failures within one window may come together (0: not at all) without
    being held against the candidate; 0.02 covers connection resets and short pauses. Where stable's windows
    show less, less is allowed for. `windows_to_fail` windows must agree before a candidate fails.
    `latency_quantile` is the highest level of the distribution at which latencies are compared. The first
    `latency_grace_windows` with candidate traffic are not asked for latency: a model that has just been
    loaded is cold. `minimum_candidate_requests` in a step are needed to pass it, never to fail.
    """

    alpha: float = 0.01
    error_margin_percent: float = 0.02
    error_ceiling_percent: float | None = None
    latency_quantile: float = 0.9999
    latency_margin_percent: float = 10.0
    latency_ceiling_ms: float | None = None
    minimum_candidate_requests: int = 50
    burst_correlation: float = 0.02
    windows_to_fail: int = 2
    latency_grace_windows: int = 1

    def __post_init__(self) -> None:
        _require("alpha", self.alpha, 0.0, 0.5, open_ends=True)
        _require("error_margin_percent", self.error_margin_percent, 0.0, 90.0)
        _require("latency_quantile", self.latency_quantile, 0.0, 1.0, open_ends=True)
        _require("latency_margin_percent", self.latency_margin_percent, 0.0, 1000.0)
        _require("minimum_candidate_requests", self.minimum_candidate_requests, 1, _PLENTY)
        _require("burst_correlation", self.burst_correlation, 0.0, 1.0)
        _require("windows_to_fail", self.windows_to_fail, 1, 100)
        _require("latency_grace_windows", self.latency_grace_windows, 0, 100)
        if self.error_ceiling_percent is not None:
            _require("error_ceiling_percent", self.error_ceiling_percent, 0.0, 100.0)
        if self.latency_ceiling_ms is not None:
            _require("latency_ceiling_ms", self.latency_ceiling_ms, 0.0, _PLENTY, open_ends=True)

    @property
    def shares(self) -> dict[str, float]:
        """What each question has of the stake, and so of alpha; the shares sum to 1.

        Errors have most: a faulty answer is worse than a slow one, and rarer, so it takes longer to see.
        """
        weights = {"errors": 8.0, "latency": 2.0}
        if self.error_ceiling_percent is not None:
            weights["error_ceiling"] = 1.0
        if self.latency_ceiling_ms is not None:
            weights["latency_ceiling"] = 1.0
        total = sum(weights.values())
        return {name: weight / total for name, weight in weights.items()}

    @property
    def fail_threshold(self) -> float:
        """The evidence, all questions together, at which the candidate fails (Ville's inequality)."""
        return 1.0 / self.alpha

    @property
    def suspicion_threshold(self) -> float:
        """The evidence, twice what it begins with, at which a pass has to wait for more."""
        return 2.0

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> AnalysisPolicy:
        """Build a policy from the keys of `value`; what is left out has its default. Raises SpecError for
        unknown keys.
        """
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(value) - known)
        if unknown:
            raise SpecError(
                f"the analysis policy has unknown keys: {', '.join(unknown)}",
                expected=f"some of {', '.join(sorted(known))}",
                found=", ".join(unknown),
                remedy="correct or remove these keys",
            )
        return cls(**value)

    @classmethod
    def from_analysis(cls, analysis: object) -> AnalysisPolicy:
        """Build the policy from `rollout.analysis` of a release file: every field of the same name is taken
        over.
        """
        shared = {item.name for item in fields(cls) if hasattr(analysis, item.name)}
        return cls(**{name: getattr(analysis, name) for name in shared})


def _require(name: str, value: object, low: float, high: float, *, open_ends: bool = False) -> None:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN is in no order, and compared in this way an integer may be larger than any float.
    if numeric and (low < value < high if open_ends else low <= value <= high):  # type: ignore[operator]
        return
    raise SpecError(
        f"`{name}` of the analysis policy is out of range",
        expected=f"a number from {low:g} to {high:g}{', ends excluded' if open_ends else ''}",
        found=repr(value)[:_FOUND_LIMIT],
        remedy=f"correct `rollout.analysis.{name}` in the release file",
    )
