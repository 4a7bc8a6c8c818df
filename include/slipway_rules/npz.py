"""Reading a NumPy archive (.npz) that others wrote: within limits of size, and without Python objects.

An archive of a few kilobytes may claim to hold petabytes, and a header may claim what the archive does not hold. So
the sizes that the zip's directory claims are added up before anything is inflated, each member must hold exactly the
bytes that its own header calls for, and no more is read of it than that. Only the two ways of packing are taken that
NumPy writes; of the others one step can inflate without a limit.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from slipway_rules.errors import RuleError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Of all arrays together, once inflated: a thousand color images of 224 x 224 are 0.6 GB.
SIZE_LIMIT_BYTES = 1024**3
MEMBERS_LIMIT = 1000

_PACKED_AS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_SUFFIX = ".npy"
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)
_FOUND_LIMIT = 300


def read_npz(source: Path | IO[bytes], name: str, limit_bytes: int = SIZE_LIMIT_BYTES) -> dict[str, Array]:
    """Return the arrays of a NumPy archive by name.

    :param name: what an error calls the archive.
    :param limit_bytes: for all arrays together, once inflated.
    :raises RuleError: it is not an archive, is damaged or encrypted, holds Python objects, or is too large.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            _require_small(members, name, limit_bytes)
            return {one.filename.removesuffix(_SUFFIX): _array(archive, one, name) for one in members}
    except (zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, EOFError, OSError, KeyError) as error:
        # RuntimeError: a member is encrypted; with NotImplementedError, which is one: it is packed in another way.
        raise _unreadable(name, str(error) or type(error).__name__) from error


def _require_small(members: list[zipfile.ZipInfo], name: str, limit_bytes: int) -> None:
    total = sum(one.file_size for one in members)
    if total > limit_bytes or len(members) > MEMBERS_LIMIT:
        raise RuleError(
            f"{name} is too large for a golden set",
            expected=f"at most {limit_bytes} bytes in {MEMBERS_LIMIT} arrays, once inflated",
            found=f"{total} bytes in {len(members)} arrays",
            remedy="Take fewer rows: a gate needs hundreds of them, not all.",
        )


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Array:
    import numpy as np

    shown = f"{name}: {member.filename!r}"
    if member.compress_type not in _PACKED_AS or member.flag_bits & _ENCRYPTED:
        raise _unreadable(shown, f"a member packed as {member.compress_type}, flags {member.flag_bits:#x}")
    with archive.open(member) as file:
        shape, by_columns, dtype = _header(file, shown)
        header_bytes, size = file.tell(), math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise _unreadable(shown, "Python objects, which are never loaded")
        if header_bytes + size != member.file_size or (shape[:1] != (0,) and size == 0):
            raise _unreadable(shown, f"{member.file_size} bytes for {dtype} of shape {list(shape)}")
        raw = file.read(size)
        # To its end, where zipfile compares the checksum.
        if len(raw) != size or file.read(1):
            raise _unreadable(shown, f"{len(raw)} bytes of data instead of {size}")
    values = np.frombuffer(raw, dtype=dtype).reshape(shape, order="F" if by_columns else "C")
    _require_text(values, shown)
    return values


def _header(file: IO[bytes], shown: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the first size runs fastest, and type, as the member's own header has them."""
    from numpy.lib import format as npy

    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        shape, by_columns, dtype = readers[npy.read_magic(file)](file)
    except Exception as error:
        # The header is a Python literal, and NumPy raises whatever its parser raises.
        raise _unreadable(shown, f"no header of an array ({type(error).__name__})") from error
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise _unreadable(shown, f"the shape {list(shape)}")
    return shape, by_columns, dtype


def _require_text(values: Array, shown: str) -> None:
    """Raise RuleError for a text with characters that Unicode does not have; NumPy does not check them."""
    import numpy as np

    if values.dtype.kind != "U" or not values.size:
        return
    codes = np.frombuffer(values.tobytes(), dtype=np.dtype("u4").newbyteorder(values.dtype.byteorder))
    if codes.max() > _LAST_CHARACTER or ((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])).any():
        raise _unreadable(shown, "text with characters that there are not")


def _unreadable(name: str, found: str) -> RuleError:
    return RuleError(
        f"{name} cannot be read",
        expected="a NumPy .npz archive of arrays of numbers or texts",
        found=found if len(found) <= _FOUND_LIMIT else f"{found[:_FOUND_LIMIT]}…",
        remedy="Write it with numpy.savez(path, INPUT=…, LABEL=…), and upload it whole.",
    )
