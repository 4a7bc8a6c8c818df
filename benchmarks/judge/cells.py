"""The cells: which traffic, which plan, how many canaries, and what is promised of the judge there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from benchmarks.judge.wald import expected_requests
from include.model_release.spec.rollout.analysis import AnalysisPolicy
from include.model_release.spec.rollout.plan import CanaryPlan, RolloutStep

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

Group = Literal["no difference", "raises", "errors", "latency", "last step"]
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


_ORDINARY = _latency_models({"sigma 0.35": Lognormal(20.0, 0.35), "sigma 0.7": Lognormal(20.0, 0.7)})
_WIDE = _latency_models({"sigma 1": Lognormal(20.0, 1.0)})
# A twentieth of the answers takes at least twice the median, and one in 2,500 over a second.
_PARETO = _latency_models({"Pareto tail": ParetoTail(Lognormal(20.0, 0.35), 0.05, 40.0, 1.5)})


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
    latency_models: tuple[LatencyModel, ...] = _ORDINARY
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


_HARMLESS = (Goal("failed", 0.01),)
_FOUND = (Goal("found", 0.99),)


def _no_difference() -> Iterator[Cell]:
    for rate in RATES_PER_S:
        for plan in PLANS:
            yield Cell(
                f"same-{rate}rps-from{plan}",
                f"no difference, {rate}/s, weights from {plan} %",
                "no difference",
                Traffic(rate),
                _HARMLESS,
                plans=(plan,),
            )
    variations: dict[str, tuple[str, Traffic, tuple[LatencyModel, ...]]] = {
        "clumped-0.005": ("errors clumped, correlation 0.005", Traffic(1, correlation=0.005), _ORDINARY),
        "clumped-0.02": ("errors clumped, correlation 0.02", Traffic(1, correlation=0.02), _ORDINARY),
        "diurnal": ("load, errors and latency swing", Traffic(1, day_swing=0.8), _ORDINARY),
        "blip": ("3 % errors in both for 3 min", Traffic(1, blip_error_rate=0.03, blip_s=180), _ORDINARY),
        "wide": ("latency lognormal, sigma 1", Traffic(1), _WIDE),
        "pareto": ("latency with a Pareto tail", Traffic(1), _PARETO),
        "cold": ("candidate's first window ×4 slower", Traffic(1, cold_factor=4.0), _ORDINARY),
        "no-errors": ("no errors at all", Traffic(1, errors=0.0), _ORDINARY),
    }
    for name, (title, traffic, latency_models) in variations.items():
        for rate in RATES_PER_S:
            yield Cell(
                f"{name}-{rate}rps",
                f"{title}, {rate}/s",
                "no difference",
                replace(traffic, rate_per_s=rate),
                _HARMLESS,
                latency_models=latency_models,
            )


def _error_faults() -> Iterator[Cell]:
    policy = AnalysisPolicy()
    margin = policy.error_margin_percent / 100
    for percent in (2, 5):
        rate, base = percent / 100, 0.005
        wald = expected_requests(rate, base, alpha=policy.alpha, power=POWER)
        with_margin = expected_requests(rate, base + margin, alpha=policy.alpha, power=POWER)
        for plan in PLANS:
            yield Cell(
                f"errors-{percent}pc-50rps-from{plan}",
                f"errors 0.5 → {percent} %, 50/s, weights from {plan} %",
                "errors",
                Traffic(50, candidate_errors=rate),
                (*_FOUND, Goal("requests", 2 * wald)),
                plans=(plan,),
                wald_requests=wald,
                wald_requests_with_margin=with_margin,
            )
        for plan in PLANS:
            yield Cell(
                f"errors-{percent}pc-5rps-from{plan}",
                f"errors 0.5 → {percent} %, 5/s, weights from {plan} %, extended",
                "errors",
                Traffic(5, candidate_errors=rate),
                (Goal("found", 0.95),),
                plans=(plan,),
                extension_s=EXTENSION_S,
                wald_requests=wald,
                wald_requests_with_margin=with_margin,
            )
    others = {
        "errors-0-to-1pc-50rps": ("errors 0 → 1 %, 50/s", Traffic(50, errors=0, candidate_errors=0.01)),
        "all-failing-1rps": ("all requests fail, 1/s", Traffic(1, candidate_errors=1.0)),
        "all-failing-50rps": ("all requests fail, 50/s", Traffic(50, candidate_errors=1.0)),
        "late-50rps": (
            "errors 0.5 → 2 % from minute 15 on, 50/s",
            Traffic(50, candidate_errors=0.02, fault_begins_s=900),
        ),
    }
    for name, (title, traffic) in others.items():
        yield Cell(name, title, "errors", traffic, _FOUND)


def _latency_faults() -> Iterator[Cell]:
    faults = {
        "slower-1.3": ("latency ×1.3", Traffic(50, slowdown=1.3)),
        "tail": ("1 % of requests ×5", Traffic(50, tail_share=0.01)),
    }
    for name, (title, traffic) in faults.items():
        for number, latency_model in enumerate(_ORDINARY, start=1):
            yield Cell(
                f"{name}-50rps-{number}",
                f"{title}, 50/s ({latency_model.name})",
                "latency",
                traffic,
                _FOUND,
                latency_models=(latency_model,),
            )
    for rate in (50, 500):
        yield Cell(
            f"slower-1.03-{rate}rps",
            f"latency ×1.03 (inside the margin), {rate}/s",
            "latency",
            Traffic(rate, slowdown=1.03),
            (Goal("passed", 0.95),),
        )


def _at_the_last_step() -> Iterator[Cell]:
    variations: dict[str, tuple[str, Traffic]] = {
        "same": ("no difference", Traffic(1)),
        "rise": ("load, errors and latency rise with the weight", Traffic(1, load_rise=1.0)),
        "diurnal": ("load, errors and latency swing", Traffic(1, day_swing=0.8)),
        "blip": ("3 % errors in both for 3 min", Traffic(1, blip_error_rate=0.03, blip_s=180)),
        "clumped-0.02": ("errors clumped, correlation 0.02", Traffic(1, correlation=0.02)),
        "cold-120s": (
            "candidate ×4 slower for 2 min after each raise",
            Traffic(1, raise_cold_s=120, raise_cold_share=1.0, tail_factor=4.0),
        ),
    }
    for name, (title, traffic) in variations.items():
        for rate in (2, 10, 50, 500):
            yield Cell(
                f"last-{name}-{rate}rps",
                f"to 99 %: {title}, {rate}/s",
                "no difference",
                replace(traffic, rate_per_s=rate),
                _HARMLESS,
                plans=("99",),
                extension_s=TO_99_EXTENSION_S,
            )


def _after_raises() -> Iterator[Cell]:
    variations: dict[str, tuple[str, Traffic, tuple[Goal, ...]]] = {
        "raise-20s": (
            "40 % of the answers ×4 for 20 s after each raise",
            Traffic(1, raise_cold_s=20, raise_cold_share=0.4, tail_factor=4.0),
            _HARMLESS,
        ),
        "raise-120s": (
            "all answers ×4 for 2 min after each raise",
            Traffic(1, raise_cold_s=120, raise_cold_share=1.0, tail_factor=4.0),
            _HARMLESS,
        ),
        "outage": (
            "the candidate's server is away once, for 0.8 s",
            Traffic(1, outage_s=0.8),
            (*_HARMLESS, Goal("passed", 0.95)),
        ),
        "cache": (
            "2 % of the answers ×3 at weights up to 10 %",
            Traffic(1, small_weight_tail=0.02, tail_factor=3.0),
            _HARMLESS,
        ),
    }
    for name, (title, traffic, goals) in variations.items():
        for rate in (5, 50, 500):
            yield Cell(
                f"{name}-{rate}rps",
                f"{title}, {rate}/s",
                "raises",
                replace(traffic, rate_per_s=rate),
                goals,
                extension_s=TO_99_EXTENSION_S,
            )


def _last_step_faults() -> Iterator[Cell]:
    """Yield faults that begin with the step at 99 %, where stable answers next to nothing."""
    nobody = (Goal("promoted", 0.0),)
    few = (Goal("promoted", 0.01),)
    for rate in LAST_STEP_RATES_PER_S:
        whole_window = 1.1 * 0.99 * rate * WINDOW_S
        faults: dict[str, tuple[str, Traffic, tuple[Goal, ...]]] = {
            "all": (
                "all answers fail",
                Traffic(rate, candidate_errors=1.0),
                (*nobody, Goal("met", max(30.0, whole_window))),
            ),
            "30pc": ("30 % of the answers fail", Traffic(rate, candidate_errors=0.3), few),
            "x10": ("latency ×10", Traffic(rate, slowdown=10.0), few),
        }
        for name, (title, traffic, goals) in faults.items():
            yield Cell(
                f"last-{name}-{rate}rps",
                f"{title} from 99 % on, {rate}/s",
                "last step",
                replace(traffic, fault_begins_s=BEFORE_99_S),
                goals,
                plans=("99",),
                extension_s=TO_99_EXTENSION_S,
            )
        for name in ("all", "30pc"):
            title, traffic, _ = faults[name]
            yield Cell(
                f"only-{name}-{rate}rps",
                f"{title}, one step of 99 %, {rate}/s",
                "last step",
                traffic,
                nobody if name == "all" else few,
                plans=("only 99",),
                extension_s=TO_99_EXTENSION_S,
            )
    for rate in (5, 50):
        yield Cell(
            f"outages-{rate}rps",
            f"the candidate's server is away for 0.8 s every minute, {rate}/s",
            "errors",
            Traffic(rate, outage_s=0.8, outage_every_s=60),
            few,
            extension_s=TO_99_EXTENSION_S,
        )


CELLS: dict[str, Cell] = {
    cell.name: cell
    for cell in (
        *_no_difference(),
        *_at_the_last_step(),
        *_after_raises(),
        *_error_faults(),
        *_last_step_faults(),
        *_latency_faults(),
    )
}
