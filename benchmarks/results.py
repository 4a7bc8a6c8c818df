"""`results.json`: the newest row of each figure, with when and from which commit it was taken."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figure import Figure
from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.settings import PROJECT_ROOT

Row = Mapping[str, str | float | None]

_GIT_LIMIT_S = 30


@dataclass(frozen=True)
class Taken:
    """A figure as it was taken.

    :param taken_at: UTC.
    :param commit: short, with `-dirty` behind it where the working tree had changes; None where git does not say.
    """

    figure: Figure
    taken_at: datetime
    commit: str | None

    @classmethod
    def now(cls, figure: Figure, commit: str | None) -> Taken:
        """Return a figure that has just been taken."""
        return cls(figure, datetime.now(UTC), commit)

    def to_row(self) -> Row:
        """Return the entry of `results.json`."""
        taken_at = self.taken_at.astimezone(UTC).isoformat(timespec="seconds")
        return {**self.figure.to_dict(), "taken_at": taken_at, "commit": self.commit}


def present_commit(project: Path = PROJECT_ROOT) -> str | None:
    """Return the commit that is measured, marked where files differ from it; None where git does not say."""
    head = _git(project, "rev-parse", "--short", "HEAD")
    changes = _git(project, "status", "--porcelain")
    if head is None or changes is None:
        return None
    return f"{head}-dirty" if changes else head


def write_results(path: Path, taken: Iterable[Taken], order: Sequence[str]) -> None:
    """Put the rows of these figures into `results.json`, which is replaced in one step.

    Rows of other figures stay as they are, as long as there is such a figure.

    :param order: the names of all figures, in the order of the rows.
    """
    rows = {str(row.get("figure")): row for row in _read(path)}
    rows |= {one.figure.name: one.to_row() for one in taken}
    kept = [rows[name] for name in order if name in rows]
    replace_file(path, json.dumps(kept, indent=2) + "\n")


def _read(path: Path) -> list[Row]:
    """Return the rows of earlier runs; none where there is no file, or no list of rows in it."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _git(project: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(project), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
