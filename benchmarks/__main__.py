"""Take the figures, print a row for each, and put them into `.sandbox/bench/results.json`.

Rows of figures that this run did not take stay there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figure import MeasureError
from benchmarks.figures import FIGURES, selected
from benchmarks.results import Taken, present_commit, write_results
from benchmarks.sandbox import PROJECT_ROOT

RESULTS = PROJECT_ROOT / ".sandbox" / "bench" / "results.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when every figure was taken, 1 when one could not be, 2 for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        default=os.environ.get("ONLY", ""),
        metavar="NAME,…",
        help=f"some of {', '.join(FIGURES)}; default: $ONLY, or all",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to write; default: %(default)s")
    arguments = parser.parse_args(argv)
    try:
        names = selected(arguments.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    taken: list[Taken] = []
    failed = 0
    for name in names:
        commit = present_commit()
        try:
            taken.append(Taken.now(FIGURES[name](), commit))
        except MeasureError as error:
            failed += 1
            print(f"{name:<30} could not be taken. {error}", file=sys.stderr, flush=True)
        else:
            print(taken[-1].figure.row(), flush=True)
            write_results(arguments.results, taken, tuple(FIGURES))
    print(f"Written to {arguments.results}" if taken else "Nothing was measured.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
