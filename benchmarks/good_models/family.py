"""A family of models: what training leaves of each version, and the release file that a person would write for it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

VERSIONS = (1, 2)
"""The second one is trained anew, or tuned further, and released while the first one is live."""


@dataclass(frozen=True)
class Landed:
    """What training leaves of one version: files by path, and the golden set's arrays."""

    files: Mapping[str, bytes]
    golden: Mapping[str, Array]

    def golden_file(self) -> bytes:
        """Return the golden set as an .npz."""
        buffer = io.BytesIO()
        np.savez(buffer, **dict(self.golden))  # type: ignore[arg-type, unused-ignore]
        return buffer.getvalue()


@dataclass(frozen=True)
class Family:
    """One kind of model.

    :ivar name: the model's name.
    :ivar shows: what of it a gate could stumble over.
    :ivar release_file: all of the release file but `model`.
    :ivar land: makes one version; given a folder that this run alone uses, and the version's number.
    """

    name: str
    shows: str
    release_file: str
    land: Callable[[Path, int], Landed]

    def text(self) -> str:
        """Return the release file."""
        return f"model: {self.name}\n{self.release_file.strip()}\n"
