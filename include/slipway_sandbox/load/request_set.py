"""What clients send: one tensor a request, and which answer is right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class RequestSet:
    """Requests of one model, sent one after the other and then again from the first.

    :param input_name: the model's input.
    :param rows: FP32, the tensor of each request; the first axis counts the requests.
    :param output_name: the output that is asked for.
    :param expected: INT64, for each request the first value of a right answer; None if every answer is right.
    """

    input_name: str
    rows: npt.NDArray[np.float32]
    output_name: str
    expected: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def is_right(self, row: int, value: float | None) -> bool | None:
        """Return whether `value` is the right answer to a request; None if that is unknown."""
        return None if self.expected is None or value is None else bool(value == self.expected[row])

    def save(self, path: Path) -> None:
        """Write the requests where `load` finds them."""
        arrays: dict[str, Any] = {"rows": self.rows, "names": np.array([self.input_name, self.output_name])}
        if self.expected is not None:
            arrays["expected"] = self.expected
        with path.open("wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> RequestSet:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            input_name, output_name = (str(name) for name in arrays["names"])
            expected = arrays.get("expected")
            return cls(input_name, arrays["rows"], output_name, expected)
