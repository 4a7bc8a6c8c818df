"""Reading a NumPy archive (.npz) that others wrote: within limits of size, and without Python objects.

The rules of `include/slipway_core/gates/validation/npz.py`: a test holds the two alike.

What the zip's directory claims is added up before anything is inflated, and each member must hold exactly the bytes
that its own header calls for. Only the two ways of packing are taken that NumPy writes; of the others one step can
inflate without a limit.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

# Of all arrays together, once inflated.
SIZE_LIMIT_BYTES = 1024**3
MEMBERS_LIMIT = 1000
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)


def read_npz(path: Path, limit_bytes: int = SIZE_LIMIT_BYTES) -> dict[str, Any]:
    """Return the arrays by name.

    :raises ValueError: it is too large, or a member is not an array; zipfile and zlib raise their own errors too.
    """
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > limit_bytes or len(members) > MEMBERS_LIMIT:
            raise ValueError(
                f"it holds {total} bytes in {len(members)} arrays; the limit is {limit_bytes} bytes"
            )
        return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    import numpy as np

    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
        raise ValueError(f"{member.filename!r} is encrypted, or packed in another way than NumPy's")
    with archive.open(member) as file:
        shape, by_columns, dtype = _header(file, member.filename)
        size = math.prod(shape) * dtype.itemsize
        is_backed = file.tell() + size == member.file_size and (size > 0 or shape[:1] == (0,))
        if dtype.hasobject or not is_backed:
            raise ValueError(f"{member.filename!r} does not hold {dtype} of shape {list(shape)}")
        raw = file.read(size)
        if len(raw) != size or file.read(1):
            raise ValueError(f"{member.filename!r} is not as long as the archive says")
    values = np.frombuffer(raw, dtype=dtype).reshape(shape, order="F" if by_columns else "C")
    if dtype.kind == "U" and values.size:
        codes = np.frombuffer(raw, dtype=np.dtype("u4").newbyteorder(dtype.byteorder))
        if codes.max() > _LAST_CHARACTER or ((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])).any():
            raise ValueError(f"{member.filename!r} holds characters that there are not")
    return values


def _header(file: Any, name: str) -> tuple[tuple[int, ...], bool, Any]:
    from numpy.lib import format as npy

    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        shape, by_columns, dtype = readers[npy.read_magic(file)](file)
    except Exception as error:  # NumPy raises whatever Python's parser raises
        raise ValueError(f"{name!r} has no header of an array ({type(error).__name__})") from error
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise ValueError(f"{name!r} has the shape {list(shape)}")
    return shape, by_columns, dtype
