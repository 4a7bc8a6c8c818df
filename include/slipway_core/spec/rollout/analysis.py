"""The release file's `rollout.analysis`: how sure the judge must be, and how much worse is still good enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from slipway_core.spec.parts import Count, SpecPart

HypothesisName = Literal["errors", "latency", "error_ceiling", "latency_ceiling"]
# More milliseconds than there will be.
_LONGEST_MS = 1e12


class AnalysisPolicy(SpecPart):
    """What the judge of the canary holds against the candidate: margins in percent, latencies in ms."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.01
    """How often a candidate that is no worse may be rolled back, over a whole canary."""
    error_margin_percent: Annotated[float, Field(ge=0, le=90)] = 0.02
    """Percentage points by which the candidate may fail more often than stable."""
    error_ceiling_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    """The highest error rate of the candidate, whatever stable's is; null: no ceiling."""
    latency_quantile: Annotated[float, Field(gt=0, lt=1)] = 0.9999
    """Latencies are compared from the median up to here; lower it if the far tail is the machine's noise."""
    latency_margin_percent: Annotated[float, Field(ge=0, le=1000)] = 10.0
    """Percent by which the candidate may be slower than stable."""
    latency_ceiling_ms: Annotated[float, Field(gt=0, lt=_LONGEST_MS)] | None = None
    """The highest latency of the candidate at `latency_quantile`, whatever stable's is; null: no ceiling."""
    minimum_candidate_requests: Count = 50
    """Candidate requests that a step needs to pass; a fail needs none."""
    burst_correlation: Annotated[float, Field(ge=0, le=1)] = 0.02
    """How strongly failures of one window may come together without counting against the candidate; 0: not at
    all. 0.02 covers connection resets and short pauses. Where stable's windows show less, less is allowed for.
    """
    windows_to_fail: Annotated[int, Field(ge=1, le=100)] = 2
    """Windows that must agree before a candidate fails."""
    latency_grace_windows: Annotated[int, Field(ge=0, le=100)] = 1
    """The first windows with candidate traffic after each raise of the weight whose latencies do not count: a model
    that has just been loaded is slow.
    """
    latency_grace_s: Annotated[float, Field(ge=0, le=3600)] = 120.0
    """After those, for how long after each raise the latencies of a candidate that is still slower than stable do not
    count; in a short step for twice its bake. It ends as soon as the candidate has caught up, and a step passes when
    latency was judged after it.
    """

    cold_cache_percent: Annotated[float, Field(ge=0, le=50)] = 3.0
    """Of the candidate's answers, the percent that may be slow beyond stable's for a cache that is colder because its
    share is small. At a weight of w % it is this times 1 - w/50; none from 50 % on.
    """
    disruption_grace_windows: Annotated[int, Field(ge=0, le=100)] = 3
    """Windows of a step that are not judged because the cluster itself took a pod of the candidate away (a node that is
    lost or drained, a preemption); 0: all are judged.
    """

    @property
    def shares(self) -> dict[HypothesisName, float]:
        """What each hypothesis test has of alpha; the shares sum to 1.

        Errors have most: a faulty answer is worse than a slow one, and rarer, so it takes longer to see.
        """
        weights: dict[HypothesisName, float] = {"errors": 8.0, "latency": 2.0}
        if self.error_ceiling_percent is not None:
            weights["error_ceiling"] = 1.0
        if self.latency_ceiling_ms is not None:
            weights["latency_ceiling"] = 1.0
        total = sum(weights.values())
        return {name: weight / total for name, weight in weights.items()}

    @property
    def fail_threshold(self) -> float:
        """The evidence, of all hypothesis tests together, at which the candidate fails (Ville's inequality)."""
        return 1.0 / self.alpha

    @property
    def suspicion_threshold(self) -> float:
        """The evidence, twice what it begins with, at which a pass has to wait for more."""
        return 2.0

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return dict(self)

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any], name: str = "the analysis policy") -> AnalysisPolicy:
        """Build a policy from the keys of `value`; what is left out has its default.

        :param name: what an error calls the mapping.
        :raises SpecError: a key is unknown, or its value is wrong.
        """
        from slipway_core.documents.yaml_source import YamlSource
        from slipway_core.spec.complaints import explain

        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise explain(error, cls, YamlSource(name, {}, {}, {})) from error
