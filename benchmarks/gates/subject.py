"""A model that is damaged: what it takes, what is asked of it, and golden sets drawn by a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from slipway_core.spec.validation import Validation

Array = NDArray[Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Subject:
    """One model. `golden` draws a golden set by a seed.

    :ivar width: how many numbers the scored output has.
    :ivar steps: the size of the main input's last axis.
    :ivar swappable: two inputs of one type and shape.
    :ivar common_labels: classes that most golden sets have.
    """

    name: str
    model: onnx.ModelProto
    validation: Validation
    golden: Callable[[int], Arrays]
    main_input: str
    input_type: str
    width: int
    steps: int
    numpy_type: str = "float32"
    swappable: tuple[str, str] | None = None
    common_labels: tuple[int, ...] = (0, 1)
    row_axis: dict[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """Return the output that is scored."""
        return self.validation.output

    @property
    def kind(self) -> str:
        """Return the kind of its answers."""
        return self.validation.kind


def chosen(seed: int, labels: Array, rows: int) -> Array:
    """Return rows drawn by a seed, in order."""
    return np.sort(np.random.default_rng(seed).permutation(len(labels))[:rows])
