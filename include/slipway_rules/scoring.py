"""What a scorer's pod is given and gives back: the arrays of both archives, by name, and their limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Of all arrays together, once inflated.
GIVEN_LIMIT_BYTES = 256 * 2**20
SCORES_FILE = "scores.npz"
SCORES_LIMIT_BYTES = 64 * 2**20

NAMES_LIMIT = 64
"""So many scores by row there may be, and so many further figures."""
FIGURE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""What a score or a figure may be called."""

_LABEL = "label"


@dataclass(frozen=True)
class Given:
    """What a scorer is given.

    By name arrays with the rows first; an input that is the same in every request is as it is. `labels` is None
    without labels, `stable` without a stable version.
    """

    inputs: Mapping[str, Array]
    labels: Array | None
    answers: Mapping[str, Array]
    stable: Mapping[str, Array] | None

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by the names that they have in the archive: `PART/NAME`."""
        labels = {} if self.labels is None else {_LABEL: self.labels}
        parts = {"input": self.inputs, _LABEL: labels, "answer": self.answers, "stable": self.stable or {}}
        return {f"{part}/{name}": values for part, arrays in parts.items() for name, values in arrays.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array]) -> Given:
        """Return what lies in an archive, by such names."""
        parts: dict[str, dict[str, Array]] = {}
        for name, values in arrays.items():
            part, _, inner = name.partition("/")
            parts.setdefault(part, {})[inner] = values
        return cls(
            parts.get("input", {}),
            parts.get(_LABEL, {}).get(_LABEL),
            parts.get("answer", {}),
            parts.get("stable") or None,
        )
