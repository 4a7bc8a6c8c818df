"""The cells: kinds of canaries, good ones and faulty ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.judge.cell import (
    BEFORE_99_S,
    EXTENSION_S,
    LAST_STEP_RATES_PER_S,
    ORDINARY,
    PARETO,
    PLANS,
    POWER,
    RATES_PER_S,
    TO_99_EXTENSION_S,
    WIDE,
    WINDOW_S,
    Cell,
    Goal,
)
from benchmarks.judge.latency import LatencyModel
from benchmarks.judge.traffic import Traffic
from benchmarks.judge.unseen_cells import unseen_faults
from benchmarks.judge.wald import expected_requests
from slipway_core.spec.rollout.analysis import AnalysisPolicy

_HARMLESS = (Goal("failed", 0.01),)
_FOUND = (Goal("found", 0.99),)


def _extension_s(rate: float) -> float:
    """Return for how long a canary goes on: at 1 request a second some windows are idle, and no time of the bake."""
    return TO_99_EXTENSION_S if rate <= 1 else 0.0


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
                extension_s=_extension_s(rate),
            )
    variations: dict[str, tuple[str, Traffic, tuple[LatencyModel, ...]]] = {
        "clumped-0.005": ("errors clumped, correlation 0.005", Traffic(1, correlation=0.005), ORDINARY),
        "clumped-0.02": ("errors clumped, correlation 0.02", Traffic(1, correlation=0.02), ORDINARY),
        "diurnal": ("load, errors and latency swing", Traffic(1, day_swing=0.8), ORDINARY),
        "blip": ("3 % errors in both for 3 min", Traffic(1, blip_error_rate=0.03, blip_s=180), ORDINARY),
        "wide": ("latency lognormal, sigma 1", Traffic(1), WIDE),
        "pareto": ("latency with a Pareto tail", Traffic(1), PARETO),
        "cold": ("candidate's first window ×4 slower", Traffic(1, cold_factor=4.0), ORDINARY),
        "no-errors": ("no errors at all", Traffic(1, errors=0.0), ORDINARY),
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
                extension_s=_extension_s(rate),
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
        for number, latency_model in enumerate(ORDINARY, start=1):
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
        *unseen_faults(),
        *_latency_faults(),
    )
}
