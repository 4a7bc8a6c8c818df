"""Files are hashed while they are sent: whole, and in the parts in which S3 gets them."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_pod.storage.upload import HashedUpload, part_bytes

PART = 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to write anew."""
    return tmp_path_factory.mktemp("upload") / "file"


@given(body=st.binary(max_size=60), reads=st.lists(st.integers(1, 20), max_size=10))
def test_digests_do_not_depend_on_how_it_is_read(path: Path, body: bytes, reads: list[int]) -> None:
    """Whatever pieces are read, the digests are those of the file and of its parts, as S3 computes them."""
    path.write_bytes(body)
    file = HashedUpload(path, PART)
    read = b"".join(file.read(size) for size in reads) + file.read()
    assert read == body
    assert file.read(1) == b""
    wanted = {"size_bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    measured = file.measured()
    if len(body) >= PART:
        pieces = [body[start : start + PART] for start in range(0, len(body), PART)]
        inner = b"".join(hashlib.sha256(piece).digest() for piece in pieces)
        outer = base64.b64encode(hashlib.sha256(inner).digest()).decode()
        assert measured.pop("parts") == {"size_bytes": PART, "sha256": outer}
    assert measured == wanted


def test_no_file_has_too_many_parts() -> None:
    """S3 takes 10,000 parts: beyond that many of the usual size they grow, in whole MiB."""
    tebibytes = 5 * 2**40
    assert part_bytes(0) == part_bytes(100 * 2**30) == 16 * 2**20
    assert part_bytes(tebibytes) % 2**20 == 0
    assert tebibytes / part_bytes(tebibytes) <= 10_000
