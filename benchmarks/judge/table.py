"""The measurement for people: on a terminal, and as a page of the documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.judge.cell import POWER
from benchmarks.judge.cells import CELLS
from benchmarks.judge.summary import CellResult, Ended, Estimate
from benchmarks.judge.timing import VERDICT_LIMIT_MS, WINDOWS, Timing
from slipway_core.spec.rollout.analysis import AnalysisPolicy

OTHERS = ("Flagger", "Argo", "Kayenta")
NARROWEST = 190
LEGEND = (
    "✓ goal reached, ✗ missed; in parentheses if the 95 % interval includes the goal, so that more runs might "
    "change the result."
)

Column = tuple[str, Callable[[CellResult], str]]


@dataclass(frozen=True)
class Measurement:
    """All that a run of the benchmark found."""

    seed: int
    results: Sequence[CellResult]
    timing: Timing

    @property
    def reached(self) -> bool:
        """Whether every goal was."""
        return self.timing.reached and all(result.reached for result in self.results)


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}" if percent in (0.0, 100.0) else f"{percent:.1f}"


def _share(estimate: Estimate) -> str:
    return f"{_percent(estimate.value)} % ({_percent(estimate.low)}–{_percent(estimate.high)})"


def _number(value: float | None, form: str = ",.0f") -> str:
    return "–" if value is None else format(value, form)


def _requests(result: CellResult) -> str:
    ratio = result.wald_ratio()
    mean = _number(result.ours.mean_requests.value)
    return mean if ratio is None else f"{mean} ({ratio:.1f}×)"


def _other(ended: Ended) -> str:
    if ended.median_minutes is None:
        return f"{_percent(ended.failed.value)} %"
    minutes = _number(ended.median_minutes, ".0f")
    return f"{_percent(ended.failed.value)} % / {minutes} / {_number(ended.median_requests)}"


def _other_column(name: str) -> Column:
    return name, lambda result: _other(result.others[name])


_FIRST: tuple[Column, ...] = (
    ("cell", lambda result: result.cell.title),
    ("runs", lambda result: str(result.runs)),
)
_LAST: tuple[Column, ...] = (
    *(_other_column(name) for name in OTHERS),
    ("goal", lambda result: ", ".join(held.goal.words() for held in result.goals)),
    ("", lambda result: result.mark()),
)
_PASSED: Column = ("passed %", lambda result: _percent(result.ours.passed.value))
_MINUTES: Column = ("minutes", lambda result: _number(result.ours.median_minutes, ".1f"))
_HARMLESS = (*_FIRST, ("failed", lambda result: _share(result.ours.failed)), _MINUTES, _PASSED, *_LAST)
_FAULTS = (
    *_FIRST,
    ("found", lambda result: _share(result.ours.found)),
    _MINUTES,
    ("requests", _requests),
    _PASSED,
    *_LAST,
)
GROUPS: dict[str, tuple[str, tuple[Column, ...]]] = {
    "no difference": ("No difference: how often a good candidate fails", _HARMLESS),
    "raises": ("After a raise, and around an outage: how often a good candidate fails", _HARMLESS),
    "errors": ("More errors: how often and how soon the judge finds them", _FAULTS),
    "last step": ("A fault that begins at 99 %, with almost no answers from stable", _FAULTS),
    "unseen": ("Faults that no count of answers shows: the other rules see only answers", _FAULTS),
    "latency": ("Slower answers", _FAULTS),
}


def _tables(results: Sequence[CellResult]) -> list[tuple[str, list[str], list[list[str]]]]:
    found = []
    for group, (title, columns) in GROUPS.items():
        rows = [[cell(result) for _, cell in columns] for result in results if result.cell.group == group]
        if rows:
            found.append((title, [heading for heading, _ in columns], rows))
    return found


def timing_words(timing: Timing) -> str:
    """Return what a verdict costs, in a sentence."""
    return (
        f"{'✓' if timing.reached else '✗'} One verdict after {WINDOWS} windows takes {timing.verdict_ms:.2f} ms "
        f"(goal: less than {VERDICT_LIMIT_MS:g}); all {WINDOWS} from the first take {timing.fold_ms:.0f} ms."
    )


def print_measurement(measurement: Measurement, console: Console) -> None:
    """Print the tables; lines longer than the terminal are wrapped within their columns."""
    for title, headings, rows in _tables(measurement.results):
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for row in rows:
            style = "red" if row[-1] == "✗" else "yellow" if row[-1] != "✓" else None
            table.add_row(*row, style=style)
        console.print(table)
    console.print(timing_words(measurement.timing))
    console.print(f"{LEGEND} Seed {measurement.seed}.")


def markdown(measurement: Measurement, before: str = "") -> str:
    """Return the measurement as a page of the documentation.

    :param before: the page as it was: rows of cells that were not measured now are taken over.
    """
    kept = {cell.title: row for cell in CELLS.values() if (row := _row_of(cell.title, before))}
    lines = [
        _INTRODUCTION.format(
            policy=_policy_words(), power=POWER, seed=measurement.seed, legend=_filled(LEGEND, "- ")
        )
    ]
    kept |= {row[0]: _line(row) for _, _, rows in _tables(measurement.results) for row in rows}
    for group, (title, columns) in GROUPS.items():
        rows = [kept[cell.title] for cell in CELLS.values() if cell.group == group and cell.title in kept]
        headings = [heading for heading, _ in columns]
        if rows:
            lines += ["", f"## {title}", "", _line(headings), _line(["---"] * len(headings)), *rows]
    left_out = len(CELLS) - len(kept)
    if left_out:
        lines += ["", f"{left_out} of {len(CELLS)} cells were left out of this run."]
    lines += ["", "## Cost", "", timing_words(measurement.timing), ""]
    return "\n".join(lines)


def _row_of(title: str, page: str) -> str | None:
    return next((line for line in page.splitlines() if line.startswith(f"| {title} |")), None)


def _policy_words() -> str:
    settings = AnalysisPolicy().to_dict().items()
    named = ", ".join(f"`{name}` {value}" for name, value in settings if value is not None)
    return _filled(f"Ours is the judge with its default policy: {named}.")


def _filled(text: str, first: str = "") -> str:
    return textwrap.fill(text, 110, initial_indent=first, subsequent_indent=" " * len(first))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


_INTRODUCTION = """\
# The judge, measured

`make bench-judge` writes this page (`ARGS="--markdown docs/judge-table.md"`). Don't edit it by hand. The
simulation is in `benchmarks/judge/`. With the same seed ({seed}), it draws the same canaries. With `--cell`, it
replaces only the rows of these cells. The other rows show the judge as it was when they were measured.

A canary lasts 25 minutes, in windows of 10 s. Its weight rises in equal steps: 2, 5, 10, 25, 50 % or 5, 10,
25, 50 %. Cells *to 99 %* rise over 5 and 25 % to 99 %, or begin there if they say so. If another cell names
no weights, half of its runs begin at 2 % and half at 5 %. Unless the cell says otherwise, requests arrive as
a Poisson stream, half a percent of them fail, and latencies are lognormal (median 20 ms, sigma 0.35 and 0.7
in turn). The judge sees them through the buckets of the sandbox's Envoy and through Prometheus' default
buckets in turn.

{policy}

- *failed*, *found*: the share of canaries, with the exact 95 % interval; *found* excludes canaries that failed
  before the fault began. *passed*: the share whose last verdict was a pass. The rest are *inconclusive*.
- *minutes*: median, from the fault's beginning until the fail. *requests*: mean number of the candidate's
  answers in this time, over all runs; in parentheses as a multiple of what Wald's sequential test would need
  on average with the same alpha and a power of {power}, if it knew both rates in advance and had no margin.
- Flagger (99 %, 500 ms, ten failed checks), Argo Rollouts (95 %, more than three failed measurements) and
  Kayenta (Mann-Whitney, once at the end), on the same windows: share failed / median minutes / median
  requests. `benchmarks/judge/rules.py` gives the sources of their thresholds.
{legend}"""
