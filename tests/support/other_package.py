"""Another project's package, as it is once it is installed: a module, and entry points that lead into it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def install(folder: Path, name: str, module: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """Put a package of one module into a folder that is on the path, with its entry points by group and name."""
    (folder / f"{name.replace('-', '_')}.py").write_text(textwrap.dedent(module), encoding="utf-8")
    about = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n", encoding="utf-8")
    lines = [
        line
        for group, points in entry_points.items()
        for line in (f"[{group}]", *(f"{point} = {value}" for point, value in points.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_installed(
    folder: Path, program: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a process of its own, with the packages of that folder installed."""
    paths = [str(folder), *(str(ROOT / part) for part in ("include", "plugins", "."))]
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
