"""`good_models_refused`: how many good models the gates refuse, over families of models that libraries make.

Each family is trained twice (the second version anew, or tuned further) and released with the release file that a
person would write for it: `slipway lint`, what `admit` asks of the golden set, conversion with its parity, publication
with the checks of the configuration, smoke test, and validation, the second version against the first as the stable
one. Pods' programs are processes in their images' environments, both servers real tritonservers of the sandbox, S3 is
moto's. The cluster takes no part: neither benchmark nor canary. What each version came to lies in
`.sandbox/bench/good_models_refused.json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, MeasureError
from benchmarks.good_models.families import families
from benchmarks.good_models.family import VERSIONS
from benchmarks.good_models.place import staging
from benchmarks.sandbox import PROJECT_ROOT, own_environment

Row = Mapping[str, Any]

_TABLE = PROJECT_ROOT / ".sandbox" / "bench" / "good_models_refused.json"
_LIMIT_S = 3600


def measure() -> Figure:
    """Release all families and count the versions that were refused.

    :raises MeasureError: a version was released by nobody, so that nothing is known of it.
    """
    names = [one.name for one in families()]
    _TABLE.parent.mkdir(parents=True, exist_ok=True)
    _TABLE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="slipway-good-models-") as name:
        folder = Path(name)
        with staging(folder) as environment:
            said = _release(folder, environment)
    rows = json.loads(_TABLE.read_text()) if _TABLE.exists() else []
    try:
        return figure_of(rows, names)
    except MeasureError as error:
        raise MeasureError(f"{error} {said}".strip()) from error


def figure_of(rows: Sequence[Row], names: Sequence[str]) -> Figure:
    """Return the figure of these outcomes.

    :param names: the families that were to be released.
    :raises MeasureError: a version has no outcome, though the one before it passed.
    """
    found = {(row["model"], row["version"]): row for row in rows}
    refused = [row for row in rows if row["refused_by"]]
    for name in names:
        for version in VERSIONS:
            row = found.get((name, version))
            if row is None:
                raise MeasureError(f"version {version} of {name!r} has no outcome; see {_TABLE}.")
            if row["refused_by"]:
                break
    note = f"of {len(rows)} versions, {len(names)} families of models"
    refusals = "; ".join(f"{row['model']} {row['version']} by {row['refused_by']}" for row in refused)
    return Figure(
        "good_models_refused",
        float(len(refused)),
        "versions",
        note=f"{note}: {refusals}" if refusals else note,
    )


def _release(folder: Path, environment: Mapping[str, str]) -> str:
    """Run all releases in a process of their own; return the end of what it said where it failed."""
    path = ":".join(
        map(str, (PROJECT_ROOT / folder for folder in ("", "plugins", "include", "include/pod_scripts")))
    )
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.good_models.process", str(_TABLE), str(folder)],
        env=own_environment({**environment, "PYTHONPATH": path}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    lines = ended.stderr.splitlines()
    print("\n".join(line for line in lines if line.startswith("  ")), file=sys.stderr)
    return "\n".join(lines[-8:]) if ended.returncode else ""
