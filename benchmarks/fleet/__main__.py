"""Releases of a fleet of eight servers under live traffic, each with one fault; ends with a table.

    python -m benchmarks.fleet --runs 200 --seed 1

Run k has the seed SEED + k: a run that broke a promise is repeated by `--runs 1 --seed ITS-SEED`. Ends with 1 where a
promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fleet.lab import ROOT
from benchmarks.fleet.suite import RATE_RPS, SERVERS, run_all


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suite; return 1 where a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--servers", type=int, default=SERVERS)
    parser.add_argument("--rate-rps", type=float, default=RATE_RPS, help="to each server")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder in which it happens")
    parser.add_argument(
        "--limit-s", type=float, default=7200.0, help="after so long no run is begun any more"
    )
    options = parser.parse_args(argv)
    end = time.monotonic() + options.limit_s
    report = run_all(
        range(options.seed, options.seed + options.runs),
        servers=options.servers,
        rate_rps=options.rate_rps,
        root=options.root,
        goes_on=lambda: time.monotonic() < end,
    )
    print(report.table())
    return 1 if report.broken or report.runs < options.runs else 0


if __name__ == "__main__":
    sys.exit(main())
