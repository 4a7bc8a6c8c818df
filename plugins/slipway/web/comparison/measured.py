"""A figure that a gate measured, and whether more of it is better."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from slipway_core.written_numbers import amount, number

# By the words of a figure's name. What has none of them, or of both, is neither better nor worse.
_MORE_IS_BETTER = frozenset(
    (
        "accuracy",
        "agreement",
        "auc",
        "coverage",
        "f1",
        "iou",
        "map",
        "ndcg",
        "precision",
        "r2",
        "recall",
        "score",
    )
).union(("similarity", "throughput"))
_LESS_IS_BETTER = frozenset(
    ("distance", "error", "errors", "failed", "itl", "latency", "loss", "mae", "memory", "mse", "p10", "p50")
).union(("p90", "p95", "p99", "perplexity", "rmse", "size", "ttft", "wer"))


@dataclass(frozen=True)
class Measured:
    """A finite figure and its unit; "" for none."""

    value: float
    unit: str = ""

    @property
    def text(self) -> str:
        """The figure as people read it."""
        written = number(self.value, 4) if self.unit else amount(self.value)
        return f"{written} {self.unit}".strip()

    def change_since(self, before: Measured) -> str:
        """Return the difference to an earlier figure, with its sign, and in percent where that says something."""
        difference = self.value - before.value
        written = f"{'+' if difference >= 0 else '−'}{number(abs(difference), 3)} {self.unit}".strip()
        if not before.value or not math.isfinite(difference / before.value):
            return written
        percent = 100 * difference / abs(before.value)
        return f"{written} ({'+' if percent >= 0 else '−'}{number(abs(percent), 2)} %)"


def is_better(name: str, before: float, after: float) -> bool | None:
    """Return whether a figure of this name has become better; None: it is the same, or its name does not say."""
    words = {*re.split(r"[^a-z0-9]+", name.casefold())}
    more, less = bool(words & _MORE_IS_BETTER), bool(words & _LESS_IS_BETTER)
    if before == after or more == less:
        return None
    return (after > before) == more
