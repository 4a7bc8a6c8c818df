"""All figures by name, in the order in which they are taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks import dag_parse, demo, idle_memory, long_canary, overhead, setup
from benchmarks.benchmark_gate.measure import measure_false_refusals, measure_found
from benchmarks.dashboard.measure import measure as measure_dashboard
from benchmarks.dashboard.scrape import measure as measure_metrics
from benchmarks.figure import Figure
from benchmarks.fleet import measure as fleet
from benchmarks.gates.suite import measure as measure_gates
from benchmarks.good_models.suite import measure as measure_good_models
from benchmarks.intake.measure import measure as measure_intake
from benchmarks.live import leak, rollback, weight_changes
from benchmarks.publishing.measure import measure_1_file, measure_200_files, measure_peak
from benchmarks.tuning.measure import measure as measure_tuning

FIGURES: Mapping[str, Callable[[], Figure]] = {
    "dag_parse_s": dag_parse.measure,
    "idle_mib": idle_memory.measure,
    "overhead_per_task_s": overhead.measure,
    "intake_requests_per_sweep": measure_intake,
    "publish_1_file": measure_1_file,
    "publish_200_files": measure_200_files,
    "publish_peak_mib": measure_peak,
    "conclude_s_26000_events": long_canary.measure,
    **{
        f"rollback_s_at_{percent}_percent": partial(rollback.measure_seconds, percent)
        for percent in rollback.ERROR_PERCENTS
    },
    **{
        f"bad_answers_at_{percent}_percent": partial(rollback.measure_bad_answers, percent)
        for percent in rollback.ERROR_PERCENTS
    },
    "decision_to_weight_0_ms": rollback.measure_decision_to_weight_0,
    "rollback_leak_requests": leak.measure,
    "weight_change_failed_requests": weight_changes.measure,
    "dashboard_p95_ms": measure_dashboard,
    "gate_mutation_score": measure_gates,
    "good_models_refused": measure_good_models,
    "benchmark_false_refusals": measure_false_refusals,
    "benchmark_found_percent": measure_found,
    "tuning_p95_reduction_percent": measure_tuning,
    "metrics_p95_ms": measure_metrics,
    "fleet_mixed_version_window_ms": fleet.measure_window,
    "fleet_failed_requests": fleet.measure_failed,
    "fleet_prepare_s": fleet.measure_prepare,
    "fleet_commit_ms": fleet.measure_commit,
    "fleet_faults": fleet.measure_faults,
    "demo_s": demo.measure,
    "setup_s": setup.measure,
}


def selected(only: str) -> list[str]:
    """Return the figures that `only` names, separated by commas, in the order of `FIGURES`; all when it is empty.

    ValueError names what is no figure and lists those there are.
    """
    names: Sequence[str] = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise ValueError(
            f"No such figure: {', '.join(unknown)}. Expected some of {', '.join(FIGURES)}, separated by commas."
        )
    return [name for name in FIGURES if not names or name in names]
