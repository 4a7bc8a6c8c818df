"""Models that a program of `training/` trains with an image's Python: all of their versions at once, once in a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.good_models.family import VERSIONS, Landed
from benchmarks.good_models.pods import train

_TRAINING = threading.Lock()


def trained_by(
    image: str, program: str, name: str, prepare: Callable[[Path], None] = lambda folder: None
) -> Callable[[Path, int], Landed]:
    """Return how a family's version is had: its files and golden set out of what the program wrote.

    :param image: whose Python runs the program.
    :param name: the family's name in the program.
    :param prepare: lays what the program reads into its folder.
    """

    def land(folder: Path, version: int) -> Landed:
        home = folder.parents[1] / f"trained-{Path(program).stem}"
        with _TRAINING:
            if not home.exists():
                home.mkdir()
                prepare(home)
                train(image, program, str(home), *map(str, VERSIONS))
        made = home / f"{name}-{version}"
        files = {str(one.relative_to(made)): one for one in made.rglob("*") if one.is_file()}
        with np.load(files.pop("golden.npz")) as golden:
            return Landed({path: one.read_bytes() for path, one in files.items()}, dict(golden))

    return land
