"""A file that is sent to S3 and hashed while it is read: the digest is of what was sent, and nothing is read twice."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any, BinaryIO

MEBIBYTE = 2**20
SMALLEST_PART_BYTES = 16 * MEBIBYTE
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
MOST_PARTS = 10_000


def part_bytes(size_bytes: int) -> int:
    """Return how large the parts of a file are: whole MiB, so that S3 takes them all.

    boto3 holds about ten of them in memory: up to 156 GiB that is a constant.
    """
    return max(SMALLEST_PART_BYTES, -(-size_bytes // MOST_PARTS // MEBIBYTE) * MEBIBYTE)


class HashedUpload:
    """A file that can only be read on, as boto3 takes it, with the digests of what was read so far.

    It is opened when it is first read, so that many can wait for their turn.
    """

    def __init__(self, path: Path, part_bytes: int) -> None:
        self.part_bytes = part_bytes
        self._path = path
        self._file: BinaryIO | None = None
        self._size_bytes = 0
        self._whole, self._part = hashlib.sha256(), hashlib.sha256()
        self._parts: list[bytes] = []

    @property
    def in_parts(self) -> bool:
        """Return whether what was read is sent in parts: boto3's rule, with a threshold of one part."""
        return self._size_bytes >= self.part_bytes

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes of the file."""
        block = self._next(size)
        self._whole.update(block)
        rest = memoryview(block)
        while rest:
            room = self.part_bytes - self._size_bytes % self.part_bytes
            taken, rest = rest[:room], rest[room:]
            self._part.update(taken)
            self._size_bytes += len(taken)
            if self._size_bytes % self.part_bytes == 0:
                self._end_part()
        return block

    def _next(self, size: int) -> bytes:
        """Return the file's next bytes; close it at its end, and return nothing after that."""
        if self._file is None:
            self._file = self._path.open("rb")
        if self._file.closed:
            return b""
        block = self._file.read(size)
        if size < 0 or len(block) < size:
            self._file.close()
        return block

    def _end_part(self) -> None:
        self._parts.append(self._part.digest())
        self._part = hashlib.sha256()

    def measured(self) -> dict[str, Any]:
        """Return size_bytes and sha256 (hexadecimal) of what was read, and S3's digest of it if it went in parts.

        That is the SHA-256, in base64, of the concatenated SHA-256 of the parts.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
        """
        about: dict[str, Any] = {"size_bytes": self._size_bytes, "sha256": self._whole.hexdigest()}
        if not self.in_parts:
            return about
        parts = [*self._parts, *([self._part.digest()] if self._size_bytes % self.part_bytes else [])]
        outer = base64.b64encode(hashlib.sha256(b"".join(parts)).digest()).decode()
        return about | {"parts": {"size_bytes": self.part_bytes, "sha256": outer}}
