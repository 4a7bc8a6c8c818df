"""What a cell is: which traffic, which plan, how many canaries, and what is promised of the judge there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.judge.latency import (
    ENVOY_BOUNDS_MS,
    PROMETHEUS_BOUNDS_MS,
    LatencyDistribution,
    LatencyModel,
    Lognormal,
    ParetoTail,
)
from benchmarks.judge.traffic import Traffic
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep

WINDOW_S = 10.0
CANARY_S = 1500.0
EXTENSION_S = 1500.0
RATES_PER_S = (1, 5, 50, 500)
# What Wald's test is given besides the policy's alpha.
POWER = 0.99

# Canaries a cell: a promise of 1 % needs more of them than one of 99 % found, and a fault is found early,
# which costs less. With these `make bench-judge` stays below a quarter of an hour on two cores.
PROMISE_RUNS, FAULT_RUNS, LAST_STEP_RUNS = 500, 400, 200
QUICK_PROMISE_RUNS, QUICK_FAULT_RUNS = 24, 16

Group = Literal["no difference", "raises", "errors", "latency", "unseen", "last step"]
Measure = Literal["failed", "found", "passed", "promoted", "requests", "met"]


def _plan(weights: tuple[int, ...]) -> CanaryPlan:
    bake_s = round(CANARY_S / len(weights))
    return CanaryPlan(
        tuple(RolloutStep(weight=weight, bake_s=bake_s) for weight in weights), window_s=WINDOW_S
    )


FROM_2, FROM_5 = _plan((2, 5, 10, 25, 50)), _plan((5, 10, 25, 50))
PLANS = {"2": FROM_2, "5": FROM_5}
# The README's plan, and one whose only step has nothing before it.
TO_99 = CanaryPlan(
    (
        RolloutStep(weight=5, bake_s=120),
        RolloutStep(weight=25, bake_s=180),
        RolloutStep(weight=99, bake_s=60),
    ),
    window_s=WINDOW_S,
)
ONLY_99 = CanaryPlan((RolloutStep(weight=99, bake_s=60),), window_s=WINDOW_S)
ALL_PLANS = {**PLANS, "99": TO_99, "only 99": ONLY_99}
PLAN_WORDS = {"2": "from 2 %", "5": "from 5 %", "99": "5, 25, 99 %", "only 99": "99 % alone"}
BEFORE_99_S = 300.0
# Up to `max_bake_s`, in which the last step must be decided.
TO_99_EXTENSION_S = 540.0
LAST_STEP_RATES_PER_S = (2, 5, 10, 20, 50)


def _latency_models(distributions: dict[str, LatencyDistribution]) -> tuple[LatencyModel, ...]:
    bounds = {"Envoy": ENVOY_BOUNDS_MS, "Prometheus": PROMETHEUS_BOUNDS_MS}
    return tuple(
        LatencyModel(f"{distribution_name}, {buckets} buckets", distribution, bounds_ms)
        for distribution_name, distribution in distributions.items()
        for buckets, bounds_ms in bounds.items()
    )


ORDINARY = _latency_models({"sigma 0.35": Lognormal(20.0, 0.35), "sigma 0.7": Lognormal(20.0, 0.7)})
WIDE = _latency_models({"sigma 1": Lognormal(20.0, 1.0)})
# A twentieth of the answers takes at least twice the median, and one in 2,500 over a second.
PARETO = _latency_models({"Pareto tail": ParetoTail(Lognormal(20.0, 0.35), 0.05, 40.0, 1.5)})


@dataclass(frozen=True)
class Goal:
    """At least or at most `limit`, of: the share of canaries that `failed`; the share that failed after the
    fault began (`found`); the share whose last verdict was `passed`, at least or (`promoted`) at most; the mean number
    of candidate `requests`, held against Wald's, or against a number (`met`).
    """

    measure: Measure
    limit: float

    @property
    def at_most(self) -> bool:
        """Whether less is better."""
        return self.measure in ("failed", "promoted", "requests", "met")

    def words(self) -> str:
        """Return the goal for people."""
        sign = "≤" if self.at_most else "≥"
        if self.measure == "requests":
            return f"requests {sign} 2 × Wald's {self.limit / 2:.0f}"
        if self.measure == "met":
            return f"requests {sign} {self.limit:.0f}"
        return f"{self.measure} {sign} {100 * self.limit:g} %"


@dataclass(frozen=True)
class Cell:
    """A kind of canary. Its runs go in turn through all pairs of plan and latency model.

    With `extension_s`, a canary that has neither passed nor failed at its end goes on at the last weight for
    so long, until a verdict.
    """

    name: str
    title: str
    group: Group
    traffic: Traffic
    goals: tuple[Goal, ...]
    plans: tuple[str, ...] = ("2", "5")
    latency_models: tuple[LatencyModel, ...] = ORDINARY
    extension_s: float = 0.0
    wald_requests: float | None = None
    wald_requests_with_margin: float | None = None

    def setting(self, run: int) -> tuple[str, LatencyModel]:
        """Return run number `run`'s plan (by the name it has in `PLANS`) and latency model."""
        rest, plan = divmod(run, len(self.plans))
        return self.plans[plan], self.latency_models[rest % len(self.latency_models)]

    def runs(self, *, quick: bool) -> int:
        """Return how many canaries this cell has by default."""
        if self.group == "last step":
            return QUICK_FAULT_RUNS if quick else LAST_STEP_RUNS
        if self.group in ("no difference", "raises"):
            return QUICK_PROMISE_RUNS if quick else PROMISE_RUNS
        return QUICK_FAULT_RUNS if quick else FAULT_RUNS
