"""What a scorer is given: inputs, labels and answers, out of one NumPy archive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway_rules.npz import read_npz

# All arrays together, once inflated.
LIMIT_BYTES = 256 * 2**20
LABEL = "label"


@dataclass(frozen=True)
class Given:
    """By name arrays with the rows first; `labels` is None without labels, `stable` without a stable version."""

    inputs: dict[str, Any]
    labels: Any
    answers: dict[str, Any]
    stable: dict[str, Any] | None


def read_given(path: Path) -> Given:
    """Return what lies in an archive, whose arrays are called `PART/NAME`.

    :raises RuleError: it is no such archive.
    """
    parts: dict[str, dict[str, Any]] = {}
    for name, values in read_npz(path, path.name, LIMIT_BYTES).items():
        part, _, inner = name.partition("/")
        parts.setdefault(part, {})[inner] = values
    return Given(
        parts.get("input", {}),
        parts.get(LABEL, {}).get(LABEL),
        parts.get("answer", {}),
        parts.get("stable") or None,
    )
