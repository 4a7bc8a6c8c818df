from __future__ import annotations

from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.plan import Plan
from benchmarks.chaos.report import Report, describe
from benchmarks.chaos.run import ChaosRun


def seen_of(plan: Plan) -> Evidence:
    return Evidence(plan, 15.0, "p-00001", "s3://b/1", "s3://b/2", "p-00002")


def test_a_broken_promise_says_how_to_see_it_again() -> None:
    """The line of its run and the table at the end name the seed and the command."""
    run = ChaosRun(Plan(17, 0.0, (), 1.0), happened=["guard_killed"], seconds=12.0)
    seen, report = seen_of(run.plan), Report()
    report.add(seen, run, ["the lease outlived the release"])
    command = "make chaos RUNS=1 SEED=17"
    assert command in describe(seen, run, ["the lease outlived the release"])
    assert f"seed 17: the lease outlived the release\n  {command}" in report.table()


def test_the_table_counts_faults_by_kind_and_times_the_runs() -> None:
    """Runs, faults, the median and the slowest."""
    report = Report()
    for seed, seconds, happened in ((1, 10.0, ["guard_killed"]), (2, 14.0, ["guard_killed", "task_lost"])):
        run = ChaosRun(Plan(seed, 0.0, (), 1.0), happened=happened, seconds=seconds)
        report.add(seen_of(run.plan), run, [])
    table = report.table()
    counts = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line}
    assert (counts["guard_killed"], counts["task_lost"], counts["router_killed"]) == (
        ["2", "0"],
        ["1", "0"],
        ["0", "0"],
    )
    assert "2 runs, 0 with a broken promise\n12.0 s a run in the median, 14.0 s at most" in table
