"""All releases of some families, in a process of its own, whose Airflow is this run's alone.

    python -m benchmarks.good_models.process ROWS FOLDER [FAMILY …]

Writes a list of outcomes to the file ROWS, anew after each; works in FOLDER. Without a name: all families.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.good_models.families import chosen
from benchmarks.good_models.family import VERSIONS, Family
from benchmarks.good_models.place import BUCKET

# Half of a release is the start of programs, one after the other.
_LANES = 2


def main(rows: Path, folder: Path, names: Sequence[str]) -> None:
    """Release every version of the families, two families at a time."""
    written: list[dict[str, Any]] = []
    lock = threading.Lock()

    def release(family: Family) -> None:
        for row in released(family, folder / family.name):
            with lock:
                written.append(row)
                rows.write_text(json.dumps(written, indent=1))

    with ThreadPoolExecutor(_LANES) as lanes:
        list(lanes.map(release, chosen(names)))


def released(family: Family, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what came of each version; none follows one that was refused, which could not be live."""
    from benchmarks.good_models.release import Release
    from slipway.hooks.s3_store import ModelStoreHook

    for version in VERSIONS:
        place = folder / str(version)
        place.mkdir(parents=True)
        began = time.monotonic()
        landed = family.land(place, version)
        trained_s = round(time.monotonic() - began, 1)
        outcome = Release(ModelStoreHook(BUCKET), family, version, place).through_all_gates(landed)
        outcome.seconds["training"] = trained_s
        yield {**asdict(outcome), "shows": family.shows}
        seconds = sum(outcome.seconds.values())
        print(
            f"  {family.name:<24} {version} {outcome.refused_by or 'passed':<11} {seconds:5.1f} s",
            file=sys.stderr,
        )
        if outcome.refused_by:
            break


if __name__ == "__main__":
    os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "WARNING")
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
