"""Golden sets: NumPy archives, as a worker and as a pod read them."""

from __future__ import annotations

import io
import struct
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.fuzz import mutate
from benchmarks.fuzz.target import Target
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.spec.validation import Validation
from slipway_core.tensors import ModelSignature
from slipway_pod.errors import PodError
from slipway_pod.models.golden import read_golden
from slipway_pod.models.tensors import Tensor

_SIGNATURE = ModelSignature.model_validate(
    {
        "inputs": [
            {"name": "pixels", "datatype": "FP32", "shape": [-1, 4]},
            {"name": "words", "datatype": "BYTES", "shape": [-1, 1]},
        ],
        "outputs": [],
    }
)
_INPUTS = (Tensor("pixels", "FP32", (-1, 4)), Tensor("words", "BYTES", (-1, 1)))


@cache
def _archives() -> tuple[bytes, ...]:
    rng = np.random.default_rng(1)
    pixels = rng.random((3, 4), dtype=np.float32)
    labels: dict[str, Any] = {"numbers": np.arange(3), "texts": np.array(["a", "bc", "ä"])}
    made = []
    for write in (np.savez, np.savez_compressed):
        for words in (np.array([["a"], ["bé"], ["c"]]), np.array([[b"a"], [b"b"], [b"c"]])):
            for label in labels.values():
                buffer = io.BytesIO()
                write(buffer, pixels=pixels, words=words, label=label)
                made.append(buffer.getvalue())
    return tuple(made)


def _mutated(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """An archive with damaged bytes, or a sound one that lies about what is in it."""
    if rng.random() < 0.5:
        return mutate.some_bytes(rng, seeds)
    with zipfile.ZipFile(io.BytesIO(rng.choice(seeds))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    kind = rng.randrange(4)
    if kind == 0:
        members[name] = mutate.some_bytes(rng, [members[name]])
    elif kind == 1:
        members[name] = _header(rng) + members[name][rng.choice((0, 64, 128)) :]
    elif kind == 2:
        members[rng.choice(("x.npy", "label.npy", "../x.npy", "x", " "))] = members.pop(name)
    else:
        members[name] = _header(rng) + bytes(rng.choice((0, 12, 48, 100_000)))
    way = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", way) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    made = buffer.getvalue()
    return _lying(rng, made) if rng.random() < 0.3 else made


def _header(rng: Random) -> bytes:
    """An .npy header of some type and shape."""
    kind = rng.choice(
        (
            "<f4",
            "<f8",
            ">f4",
            "<i8",
            "|b1",
            "|O",
            "<U1",
            "<U0",
            "|S0",
            "|S3",
            "<c8",
            "<M8[s]",
            "|V4",
            "<U3",
            "<f16",
            "x",
        )
    )
    shape = rng.choice(
        ("(3,)", "(3, 4)", "(3, 1)", "(0,)", "()", "(10000000000,)", "(10000000000, 0)", "(0, 10000000000)", "(-1, 4)",
         "(-3, -4)", "(True,)", "(3.0,)", "(" * 300, "-" * 5000 + "1", "(3, 4,)" * 200, "(" + "1," * 100 + ")")
    )  # fmt: skip
    text = (
        f"{{'descr': {kind!r}, 'fortran_order': {rng.choice(('True', 'False', '3'))}, 'shape': {shape}, }}\n"
    )
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) & 0xFFFF) + text.encode()


def _lying(rng: Random, archive: bytes) -> bytes:
    """The sizes, the way of packing or the flags of a zip's headers, changed alike in both places."""
    made = bytearray(archive)
    offset, width = rng.choice(((6, 2), (8, 2), (14, 4), (18, 4), (22, 4)))
    number = rng.choice((0, 1, 3, 8, 12, 99, 2**31, 2**32 - 1)) & (1 << 8 * width) - 1
    for signature, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = made.find(signature)
        if at >= 0:
            made[at + offset + shift : at + offset + shift + width] = number.to_bytes(width, "little")
    return bytes(made)


def _read(content: bytes) -> None:
    arrays = read_arrays(content, "golden.npz")
    label = arrays.get("label")
    kind = "text" if label is not None and label.dtype.kind in "SU" else "classification"
    golden = golden_from_arrays(arrays, _SIGNATURE, "label", labelled=Validation.registry.get(kind).labels)
    for _, inputs in golden.batches(2):
        assert inputs


def _read_in_pod(content: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        file.write(content)
        file.flush()
        read_golden(Path(file.name), "golden.npz", _INPUTS)


TARGETS = (
    Target("golden_set", lambda: list(_archives()), _mutated, _read),
    Target("golden_set_in_pod", lambda: list(_archives()), _mutated, _read_in_pod, (PodError,)),
)
