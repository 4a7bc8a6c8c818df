"""`make fuzz`: hostile inputs to everything that is parsed. Only typed errors may come out, in bounded time and memory.

    python -m benchmarks.fuzz --seconds 120 --seed 4
    python -m benchmarks.fuzz --inputs 100000
    python -m benchmarks.fuzz --only config_pbtxt --inputs 5000
    python -m benchmarks.fuzz --only config_pbtxt --seed 4 --show 1234

Input k of a target depends on the seed, the target and k alone: what failed is repeated by `--show k`, which prints the
input, reads it without any limit and lets the error through. Ends with a table, and with 1 where anything was found.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.fuzz import pool
from benchmarks.fuzz.measure import shown
from benchmarks.fuzz.report import save, table
from benchmarks.fuzz.target import Target, input_of
from benchmarks.fuzz.targets import TARGETS

_ROOT = Path(__file__).resolve().parents[2] / ".sandbox" / "fuzz"
_NO_LIMIT = 10**9


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return 1 where an input was not read as it must be."""
    options = _parser().parse_args(argv)
    chosen = [target for target in TARGETS if not options.only or target.name in options.only]
    if options.show is not None:
        return _show(chosen[0], options.seed, options.show)
    jobs = min(options.jobs, len(chosen))
    shares = sum(target.share for target in chosen)
    seconds = float(_NO_LIMIT) if options.inputs else options.seconds * jobs / len(chosen)
    print(f"fuzz: {len(chosen)} targets, seed {options.seed}", flush=True)
    began = time.monotonic()

    def run(target: Target) -> pool.Outcome:
        count = math.ceil(options.inputs * target.share / shares) if options.inputs else _NO_LIMIT
        outcome = pool.run(target, seed=options.seed, count=count, seconds=seconds)
        print(
            f"{outcome.target}: {outcome.tally.inputs:,} inputs, {len(outcome.findings)} findings", flush=True
        )
        return outcome

    with ThreadPoolExecutor(jobs) as threads:
        outcomes = list(threads.map(run, chosen))
    print(table(outcomes))
    print(f"in {time.monotonic() - began:.0f} s, seed {options.seed}")
    for finding in (one for outcome in outcomes for one in outcome.findings):
        print(save(finding, _ROOT))
    return 1 if any(outcome.findings for outcome in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [target.name for target in TARGETS]
    parser.add_argument("--seconds", type=float, default=120.0, help="for all targets together")
    parser.add_argument("--inputs", type=int, help="for all targets together, however long it takes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=names, metavar="TARGET", help=", ".join(names))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at the same time")
    parser.add_argument("--show", type=int, metavar="K", help="read input K of --only alone")
    return parser


def _show(target: Target, seed: int, index: int) -> int:
    value = input_of(target, list(target.seeds()), seed, index)
    print(shown(value))
    target.read(value)
    return 0


if __name__ == "__main__":
    sys.exit(main())
