"""Measure the canary's judge, print the table, write `.sandbox/bench/judge.json`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.judge.cells import CELLS
from benchmarks.judge.parallel import run_cells
from benchmarks.judge.summary import CellResult
from benchmarks.judge.table import NARROWEST, Measurement, markdown, print_measurement
from benchmarks.judge.timing import measure_timing
from slipway_core.spec.rollout.analysis import AnalysisPolicy

PROJECT_ROOT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT_ROOT / ".sandbox" / "bench" / "judge.json"
SEED = 20220713


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when all was measured, 1 with `--check` when a goal was missed, 2 for wrong arguments."""
    arguments = _parser().parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else NARROWEST)
    if arguments.list:
        for cell in CELLS.values():
            console.print(f"{cell.name:<26} {cell.title}", highlight=False)
        return 0
    cells = [CELLS[name] for name in arguments.cell or CELLS]
    runs = {cell.name: arguments.runs or cell.runs(quick=arguments.quick) for cell in cells}
    timing = measure_timing()
    outcomes = run_cells(runs, arguments.seed, arguments.jobs)
    results = [CellResult.of(cell, outcomes[cell.name]) for cell in cells]
    measurement = Measurement(arguments.seed, results, timing)
    print_measurement(measurement, console)
    _write(arguments.results, _json(measurement))
    if arguments.markdown:
        page: Path = arguments.markdown
        before = page.read_text(encoding="utf-8") if arguments.cell and page.exists() else ""
        _write(page, markdown(measurement, before))
    return 1 if arguments.check and not measurement.reached else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few canaries a cell: done within a minute")
    parser.add_argument("--runs", type=_positive, metavar="N", help="canaries in each cell, whatever it has")
    parser.add_argument(
        "--cell",
        action="append",
        choices=tuple(CELLS),
        metavar="NAME",
        help="only this cell (again for more)",
    )
    parser.add_argument("--list", action="store_true", help="name the cells and do nothing")
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    parser.add_argument(
        "--jobs", type=_positive, default=len(os.sched_getaffinity(0)), help="processes; default: all cores"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON; default: %(default)s")
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="write the table as a page, too; with --cell its other rows stay as they are",
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal was missed")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _json(measurement: Measurement) -> str:
    content = {
        "seed": measurement.seed,
        "policy": AnalysisPolicy().to_dict(),
        "timing_ms": vars(measurement.timing),
        "reached": measurement.reached,
        "cells": {result.cell.name: result.to_dict() for result in measurement.results},
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
