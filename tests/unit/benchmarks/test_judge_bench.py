"""`make bench-judge`, end to end on few canaries, and how its numbers are made up."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.judge import __main__ as program
from benchmarks.judge.canary_run import Outcome, Watched, run_canary, watch
from benchmarks.judge.cell import PLANS, RATES_PER_S, Cell, Goal
from benchmarks.judge.cells import CELLS
from benchmarks.judge.parallel import run_cells
from benchmarks.judge.rules import Flagger, RuleVerdict
from benchmarks.judge.summary import CellResult, Ended, Estimate, Held
from benchmarks.judge.traffic import Traffic
from benchmarks.judge.wald import expected_requests, information
from slipway_core.metrics.samples import Sample, Window

SEED = 7


def outcome(status: str, at_s: float, requests: int = 100) -> Outcome:
    """One canary that ours ended so, and that Flagger never ended."""
    return Outcome(
        "2", "a model", Watched(status, at_s, requests), {"Flagger": Watched("inconclusive", 1500.0, 500)}
    )


def cell_with(*goals: Goal, fault_begins_s: float = 0.0, wald: float | None = None) -> Cell:
    """A cell of no interest but for its goals."""
    return Cell(
        "a-cell",
        "a cell",
        "errors",
        Traffic(50, fault_begins_s=fault_begins_s),
        goals,
        wald_requests=wald,
    )


class TestWald:
    def test_the_information_of_a_request_is_the_divergence_of_two_coins(self) -> None:
        """By hand: 0.02 ln 4 + 0.98 ln(0.98 / 0.995) = 0.027726 - 0.014886."""
        assert information(0.02, 0.005) == pytest.approx(0.012840, abs=1e-6)

    def test_walds_number_is_the_one_computed_by_hand(self) -> None:
        """(0.99 ln 99 - 0.01 ln 99) / 0.012840 = 0.98 · 4.59512 / 0.012840 = 350.7."""
        assert expected_requests(0.02, 0.005, alpha=0.01, power=0.99) == pytest.approx(350.7, abs=0.1)

    def test_a_larger_difference_needs_fewer_requests(self) -> None:
        """5 % is told from 0.5 % in a fifth of the requests that 2 % takes, or fewer."""
        far = expected_requests(0.05, 0.005, alpha=0.01, power=0.99)
        assert far == pytest.approx(63.3, abs=0.1)


class TestCells:
    def test_every_cell_of_the_promise_is_there(self) -> None:
        """No difference is tried at each rate, from both weights, and in each variation."""
        for rate in RATES_PER_S:
            assert {f"same-{rate}rps-from{plan}" for plan in PLANS} <= set(CELLS)
        variations = (
            "clumped-0.005",
            "clumped-0.02",
            "diurnal",
            "blip",
            "wide",
            "pareto",
            "cold",
            "no-errors",
        )
        assert {f"{name}-{rate}rps" for name in variations for rate in RATES_PER_S} <= set(CELLS)

    def test_both_plans_take_25_minutes_and_end_at_half_the_traffic(self) -> None:
        """Weights rise from 2 or 5 to 50 % in steps of equal length."""
        for name, plan in PLANS.items():
            assert plan.steps[0].weight == int(name)
            assert plan.steps[-1].weight == 50
            assert sum(step.bake_s for step in plan.steps) == 1500

    def test_runs_go_through_all_plans_and_worlds_alike(self) -> None:
        """As many runs as there are pairs of plan and latency model have each pair once."""
        cell = CELLS["blip-50rps"]
        pairs = [cell.setting(run) for run in range(len(cell.plans) * len(cell.latency_models))]
        assert len({(plan, latency_model.name) for plan, latency_model in pairs}) == len(pairs) == 8

    def test_the_promise_of_one_percent_has_more_runs(self) -> None:
        """A rare event needs more canaries to be seen."""
        for quick in (False, True):
            promise, fault = CELLS["same-1rps-from2"], CELLS["errors-2pc-50rps-from2"]
            assert promise.runs(quick=quick) > fault.runs(quick=quick)


class TestWatching:
    WINDOWS = tuple(Window(60.0, Sample(900, 0), Sample(100, 5)) for _ in range(25))

    def test_a_fail_ends_the_canary_at_once(self) -> None:
        """Flagger's tenth failed minute ends it: 600 s, 1000 requests."""
        assert watch(Flagger(), self.WINDOWS, end_s=1500) == Watched("fail", 600.0, 1000)

    def test_requests_before_the_fault_are_not_counted(self) -> None:
        """Of ten minutes four came before the fault."""
        assert watch(Flagger(), self.WINDOWS, end_s=1500, fault_s=240).requests == 600

    def test_a_pass_before_the_end_does_not_end_the_canary(self) -> None:
        """The bake is watched to its end; there a pass ends it, and an extension is not needed."""

        class Content:
            def observe(self, window: Window) -> RuleVerdict:
                return RuleVerdict("pass", "well")

        assert watch(Content(), self.WINDOWS, end_s=600).at_s == 600


class TestSummary:
    def test_the_interval_of_no_event_reaches_up_to_the_exact_bound(self) -> None:
        """None in 300: at most 1 - 0.025^(1/300), that is 1.22 %."""
        none = Estimate.of_share(0, 300)
        assert (none.value, none.low) == (0, 0)
        assert none.high == pytest.approx(1 - 0.025 ** (1 / 300))

    def test_what_failed_before_the_fault_was_not_found(self) -> None:
        """Such a canary counts as failed only, and medians are of what was found."""
        watched = [Watched("fail", 800, 0), Watched("fail", 1020, 240), Watched("pass", 1500, 900)]
        ended = Ended.of(watched, fault_s=900)
        assert [share.value for share in (ended.failed, ended.found, ended.passed)] == pytest.approx(
            [2 / 3, 1 / 3, 1 / 3]
        )
        assert (ended.median_minutes, ended.median_requests) == (2, 240)
        assert ended.mean_requests.value == 380

    def test_where_nothing_was_found_there_is_no_time_either(self) -> None:
        """A median of nothing is None, not zero."""
        ended = Ended.of([Watched("pass", 1500, 9)], fault_s=0)
        assert (ended.median_minutes, ended.median_requests) == (None, None)

    @pytest.mark.parametrize(
        ("failed", "mark"),
        [(0, "(✓)"), (1, "(✓)"), (3, "(✗)"), (20, "✗")],
    )
    def test_a_mark_is_in_brackets_where_the_interval_leaves_it_open(self, failed: int, mark: str) -> None:
        """Of 200 canaries none to twenty failed; 1 % may."""
        outcomes = [outcome("fail", 60.0)] * failed + [outcome("pass", 1500.0)] * (200 - failed)
        result = CellResult.of(cell_with(Goal("failed", 0.01)), outcomes)
        assert (result.mark(), result.reached) == (mark, "✓" in mark)

    def test_a_mark_is_sure_where_both_ends_keep_the_goal(self) -> None:
        """None failed in 1000: the true share is below 1 % at any rate."""
        result = CellResult.of(cell_with(Goal("failed", 0.01)), [outcome("pass", 1500.0)] * 1000)
        assert result.mark() == "✓"

    def test_one_missed_goal_is_a_miss(self) -> None:
        """All are found, but after too many requests."""
        goals = (Goal("found", 0.99), Goal("requests", 80))
        result = CellResult.of(cell_with(*goals, wald=40.0), [outcome("fail", 60.0)] * 1000)
        assert [held.reached for held in result.goals] == [True, False]
        assert result.mark() == "✗"
        assert result.wald_ratio() == 2.5

    def test_a_goal_of_at_least_is_kept_from_above(self) -> None:
        """Found in 99 % or more."""
        assert Held(Goal("found", 0.99), Estimate(1.0, 0.995, 1.0)).sure
        assert not Held(Goal("found", 0.99), Estimate(0.98, 0.97, 0.99)).reached


class TestRuns:
    def test_a_run_is_the_same_again_with_the_same_seed(self) -> None:
        """Seed, cell and number make a canary; another seed or number makes another one."""
        cell = CELLS["errors-5pc-50rps-from5"]
        assert run_canary(cell, 3, SEED) == run_canary(cell, 3, SEED)
        seen = {run_canary(cell, run, seed).others["Kayenta"].requests for run in (3, 4) for seed in (7, 8)}
        assert len(seen) == 4

    @pytest.mark.nightly
    def test_the_number_of_processes_does_not_change_the_result(self) -> None:
        """The same canaries, in the same order, with one process and with two."""
        runs = {"all-failing-50rps": 12, "all-failing-1rps": 3}
        assert run_cells(runs, SEED, jobs=1) == run_cells(runs, SEED, jobs=2)

    def test_a_hopeless_candidate_is_failed_by_all(self) -> None:
        """Where every request fails, ours and the three others agree."""
        found = run_canary(CELLS["all-failing-50rps"], 0, SEED)
        assert {found.ours.status, *(other.status for other in found.others.values())} == {"fail"}

    def test_an_extension_ends_with_the_first_verdict(self) -> None:
        """A canary at 5/s goes on past its 25 minutes only while it is inconclusive, at most as long again."""
        cell = CELLS["errors-2pc-5rps-from2"]
        for run in range(6):
            ours = run_canary(cell, run, SEED).ours
            assert ours.status == "fail" or ours.at_s >= 1500
            assert ours.at_s <= 3000


class TestProgram:
    def run(self, folder: Path, *arguments: str) -> int:
        """Run it on one core, with its results in `folder`."""
        return program.main(["--jobs", "1", "--results", str(folder / "judge.json"), *arguments])

    def test_a_quick_cell_end_to_end(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The table is printed; JSON and page hold the same numbers."""
        page = tmp_path / "docs" / "table.md"
        arguments = ("--runs", "4", "--cell", "all-failing-50rps", "--cell", "same-5rps-from2")
        assert self.run(tmp_path, *arguments, "--markdown", str(page)) == 0
        printed = capsys.readouterr().out
        assert "all requests fail, 50/s" in printed
        written = json.loads((tmp_path / "judge.json").read_text(encoding="utf-8"))
        fault = written["cells"]["all-failing-50rps"]
        assert (fault["runs"], fault["ours"]["found"]["value"], fault["reached"]) == (4, 1.0, True)
        assert sum(len(part) > 0 for part in fault["parts"].values()) == 4
        assert 0 < written["timing_ms"]["verdict_ms"] < written["timing_ms"]["fold_ms"]
        text = page.read_text(encoding="utf-8")
        assert "| all requests fail, 50/s | 4 | 100 % (39.8–100) |" in text
        assert f"{len(CELLS) - 2} of {len(CELLS)} cells were left out" in text

    def test_a_cell_that_is_measured_anew_replaces_its_row_alone(self, tmp_path: Path) -> None:
        """The page keeps the rows of the others, in the order of the cells."""
        page = tmp_path / "table.md"
        kept, anew = (CELLS[name].title for name in ("all-failing-1rps", "all-failing-50rps"))
        page.write_text(f"| {kept} | 500 | as it was |\n| {anew} | 500 | as it was |\n")
        arguments = ("--runs", "1", "--cell", "all-failing-50rps", "--markdown", str(page))
        assert self.run(tmp_path, *arguments) == 0
        text = page.read_text(encoding="utf-8")
        assert f"| {kept} | 500 | as it was |\n| {anew} | 1 | 100 %" in text
        assert text.count(f"| {anew} |") == 1

    @pytest.mark.nightly
    def test_a_missed_goal_fails_only_when_asked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is a measurement; with --check it is a gate."""
        cell = CELLS["all-failing-1rps"]
        monkeypatch.setitem(
            CELLS, cell.name, Cell(cell.name, cell.title, cell.group, cell.traffic, (Goal("requests", 0.0),))
        )
        arguments = ("--runs", "1", "--cell", cell.name)
        assert self.run(tmp_path, *arguments) == 0
        assert self.run(tmp_path, *arguments, "--check") == 1

    def test_the_cells_can_be_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A line a cell, by the name that --cell takes."""
        assert program.main(["--list"]) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CELLS)

    @pytest.mark.parametrize("wrong", [["--runs", "0"], ["--cell", "no-such-cell"]])
    def test_wrong_arguments_are_refused(self, wrong: list[str]) -> None:
        """Nothing is measured."""
        with pytest.raises(SystemExit) as refused:
            program.main(wrong)
        assert refused.value.code == 2


def test_the_limits_of_the_promise_hold_for_the_quick_form() -> None:
    """Quick canaries are few enough for a minute, and not none."""
    total = sum(cell.runs(quick=True) for cell in CELLS.values())
    assert 500 < total < 3000
    assert all(math.isfinite(goal.limit) for cell in CELLS.values() for goal in cell.goals)
