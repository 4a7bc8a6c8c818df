"""Releases of an ensemble, from what training leaves to the published version."""

from __future__ import annotations

import numpy as np

from tests.support.pods.support import npz
from tests.support.release.release_steps import Release

ROWS = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
ROLLOUT = "validation: {output: y, label: label, accuracy_min: 0}\n"
ENSEMBLE = f"model: prices\nsource: {{format: repository}}\nconversion: {{target: ensemble}}\n{ROLLOUT}"


def land(release: Release, files: dict[str, bytes]) -> None:
    """Training leaves the files, and rows with the label that a model which keeps their order would give."""
    release.land(files, npz(x=ROWS, label=np.ones(len(ROWS), np.int64)))


def published(release: Release, files: dict[str, bytes]) -> Release:
    """The release, gone all the way to the published version."""
    land(release, files)
    release.convert()
    release.publish()
    return release
