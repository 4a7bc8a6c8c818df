"""Golden sets that are damaged, encrypted, inflated or lie: one kind of error, and no more memory than allowed."""

from __future__ import annotations

import bz2
import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.npz import read_arrays
from slipway_pod.errors import PodError
from slipway_pod.models.golden import read_arrays as read_in_pod
from slipway_rules.errors import RuleError
from slipway_rules.npz import read_npz

MIB = 1024 * 1024


def read(content: bytes, limit: int = MIB) -> Any:
    """The arrays, or the error as a value."""
    try:
        return read_npz(io.BytesIO(content), "golden.npz", limit)
    except RuleError as error:
        return error


def archive(way: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    """A zip of .npy members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", way) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(array: Any) -> bytes:
    """An array as NumPy writes it."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def header(descr: str, shape: str) -> bytes:
    """The header of an array that says what it likes."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def patched(content: bytes, offset: int, value: bytes) -> bytes:
    """The zip with other bytes in the header of its first member, in both places where it stands."""
    made = bytearray(content)
    for signature, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = made.find(signature) + offset + shift
        made[at : at + len(value)] = value
    return bytes(made)


SOUND = archive(x=npy(np.arange(12.0).reshape(3, 4)), label=npy(np.array(["a", "é", "c"])))
DEFLATED = archive(zipfile.ZIP_DEFLATED, x=npy(np.zeros(100_000)))
_DATA = SOUND.find(b"\x93NUMPY")


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_writes_is_read_as_numpy_reads_it(order: Any) -> None:
    """Numbers, texts and both orders of memory come back as they were."""
    arrays = {
        "x": np.asarray(np.arange(6.0, dtype=">f4").reshape(2, 3), order=order),
        "words": np.array([["a"], ["bé"]]),
        "raw": np.array([b"1", b"22"]),
        "flags": np.array([True, False]),
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    found = read(buffer.getvalue(), MIB)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert (found[name] == array).all()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"PK\x05\x06", id="an end alone"),
        pytest.param(SOUND[:-30], id="cut off"),
        pytest.param(SOUND[: _DATA + 140] + b"\xff" + SOUND[_DATA + 141 :], id="a wrong check sum"),
        pytest.param(DEFLATED[:60] + bytes(20) + DEFLATED[80:], id="broken deflate: zlib.error"),
        pytest.param(patched(SOUND, 6, b"\x01\x00"), id="encrypted: RuntimeError"),
        pytest.param(patched(SOUND, 8, b"\x63\x00"), id="packed in an unknown way: NotImplementedError"),
        pytest.param(archive(zipfile.ZIP_LZMA, x=npy(np.zeros(3))), id="packed by LZMA"),
        pytest.param(archive(x=npy(np.array([{"a": 1}], dtype=object))), id="objects"),
        pytest.param(archive(x=b"text"), id="no array"),
        pytest.param(archive(x=header("<f4", "(" * 300)), id="a header that does not end: TokenError"),
        pytest.param(archive(x=header("<f4", "-" * 5000 + "1")), id="a deep header: RecursionError"),
        pytest.param(archive(x=header("<f4", "(10000000000,)")), id="37 GiB that are not there: MemoryError"),
        pytest.param(archive(x=header("<U0", "(10000000000,)")), id="rows without bytes"),
        pytest.param(archive(x=header("<f4", "(10000000000, 0)")), id="rows without columns"),
        pytest.param(archive(x=header("<f4", "(-2, -2)") + bytes(16)), id="negative sizes"),
        pytest.param(archive(x=header("<U1", "(1,)") + b"\xff\xff\xff\xff"), id="no character"),
        pytest.param(archive(x=header("<U1", "(1,)") + b"\x00\xd8\x00\x00"), id="half a character"),
    ],
)  # fmt: skip
def test_what_is_no_golden_set_is_one_kind_of_error(content: bytes) -> None:
    """Whatever zip, zlib and NumPy say of it, the reader says RuleError."""
    assert isinstance(read(content), RuleError)


def test_an_archive_that_inflates_is_refused_by_what_it_claims() -> None:
    """64 MiB of zeros in 64 KiB are refused before any of them is made."""
    content = archive(zipfile.ZIP_DEFLATED, x=npy(np.zeros(8 * MIB)))
    assert len(content) < MIB // 8
    tracemalloc.start()
    error = read(content, MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, RuleError)
    assert peak < MIB


@pytest.mark.parametrize("way", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_an_archive_that_lies_about_its_size_inflates_no_further_than_it_claims(way: int) -> None:
    """The directory claims 200 bytes of what are 64 MiB: the member is refused, and little of it is made."""
    content = archive(way, x=header("<f8", "(9,)") + bytes(64 * MIB))
    lying = patched(content, 22, (200).to_bytes(4, "little"))
    tracemalloc.start()
    error = read(lying, MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, RuleError)
    assert peak < MIB
    assert len(bz2.compress(bytes(MIB))) < 100  # why BZIP2 is not taken: one step inflates without a limit


def test_many_members_are_refused() -> None:
    """A directory of thousands of empty members is refused as a whole."""
    content = archive(**{f"x{number}": b"" for number in range(1001)})
    assert isinstance(read(content), RuleError)


def test_whose_error_it_becomes(tmp_path: Path) -> None:
    """A worker and a pod read by the same rules; each has an error of its own, in the same words."""
    path = tmp_path / "golden.npz"
    path.write_bytes(SOUND[:-30])
    with pytest.raises(GoldenSetError) as in_worker:
        read_arrays(path.read_bytes(), "golden.npz")
    with pytest.raises(PodError) as in_pod:
        read_in_pod(path, "golden.npz")
    worker, pod = in_worker.value.to_dict(), in_pod.value.to_json()
    assert pod == {**worker, "found": f"a file of {len(SOUND) - 30} bytes: {worker['found']}"}
    assert worker["what"] == "golden.npz cannot be read"
    path.write_bytes(SOUND)
    assert read_arrays(SOUND, "golden.npz").keys() == read_in_pod(path, "golden.npz").keys() == {"x", "label"}
