"""The tensors that Triton carries: how NumPy calls their elements."""

from __future__ import annotations

NUMPY_TYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
"""By Triton's name; little-endian, as they are sent. BYTES are texts, and NumPy has no BF16."""
