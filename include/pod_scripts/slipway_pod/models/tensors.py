"""Tensors and signatures, in Triton's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# NumPy's name for a datatype, where it is not the same in small letters.
NUMPY_NAMES = {"FP16": "float16", "FP32": "float32", "FP64": "float64", "BYTES": "str"}


def numpy_name(datatype: str) -> str:
    """NumPy's name for Triton's datatype; `str` for text."""
    return NUMPY_NAMES.get(datatype, datatype.lower())


@dataclass(frozen=True)
class Tensor:
    """One input or output. A dimension that is not fixed is -1; `shape` is empty when the rank is unknown.

    `optional` says that requests may leave it out, and the golden set as well.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON holds it: what is compared from version to version."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def __str__(self) -> str:
        return f"{self.datatype}{list(self.shape)}"


@dataclass(frozen=True)
class Signature:
    """What a model takes and answers."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON holds it."""
        roles = {"inputs": self.inputs, "outputs": self.outputs}
        return {role: [tensor.to_json() for tensor in tensors] for role, tensors in roles.items()}
