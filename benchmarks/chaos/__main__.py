"""`make chaos`: seeded releases under live traffic, with faults; ends with a table and, where a promise was broken, 1.

    python -m benchmarks.chaos --runs 200 --seed 4

Run k has the seed SEED + k: a run that broke a promise is repeated by `make chaos RUNS=1 SEED=its seed`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.chaos.evidence import violations
from benchmarks.chaos.fault_lab import FaultLab
from benchmarks.chaos.plan import draw
from benchmarks.chaos.report import Report, describe

ROOT = Path(__file__).resolve().parents[2] / ".sandbox" / "chaos"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the suite; returns 1 where a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="the folder of the laboratory in which it happens"
    )
    options = parser.parse_args(argv)
    report, left = Report(), [options.seed + number for number in range(options.runs)]
    while left:
        # After a broken promise the next run begins in a fresh laboratory.
        with FaultLab(options.root) as fault_lab:
            while left:
                seed = left.pop(0)
                try:
                    seen, run = fault_lab.run(draw(seed))
                except BaseException:
                    print(f"seed {seed}: broken off\n{report.table()}", flush=True)
                    raise
                broken = violations(seen)
                report.add(seen, run, broken)
                done = options.runs - len(left)
                print(f"[{done}/{options.runs}] {describe(seen, run, broken)}", flush=True)
                if broken:
                    break
    print(report.table())
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
