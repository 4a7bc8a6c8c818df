"""What many tests begin with: written over the wire for the first of them, then copied inside moto's server."""

from __future__ import annotations

import copy
from collections.abc import Callable

from moto.s3.models import FakeBucket, FakeKey, s3_backends

from slipway.hooks.s3_store import ModelStoreHook


class LaidDown:
    """Objects that are the same for each test but for the name of its bucket.

    To publish a version takes some thirty requests, of 4 ms of computing each; a copy inside the server takes none. A
    server that is another process cannot be reached into: there all is written each time.
    """

    def __init__(self) -> None:
        self._bucket = ""
        self._objects: list[FakeKey] = []

    def into(self, store: ModelStoreHook, write: Callable[[], None]) -> None:
        """Let `write` fill the store's bucket the first time; copy what it has written every other time.

        A copy takes the place of all that is there.
        """
        bucket = _bucket(store.bucket)
        if bucket is None:
            write()
        elif not self._bucket:
            write()
            self._bucket = store.bucket
            self._objects = [_copied(one) for one in bucket.keys.values()]
        else:
            bucket.keys.clear()
            for one in self._objects:
                bucket.keys[one.name] = _copied(one, self._bucket, store.bucket)


def _bucket(name: str) -> FakeBucket | None:
    """Return a bucket of this process's server."""
    found = (by_region["aws"] for by_region in s3_backends.values() if name in by_region["aws"].buckets)
    backend = next(found, None)
    return None if backend is None else backend.get_bucket(name)


def _copied(one: FakeKey, former: str = "", bucket: str = "") -> FakeKey:
    """Return a copy with a buffer of its own, and another bucket's name wherever the former one is in its bytes."""
    twin, body = copy.copy(one), one.value
    twin._metadata = copy.copy(one._metadata)
    twin.bucket_name = bucket or one.bucket_name
    if former and f"s3://{former}/".encode() in body:
        body = body.replace(f"s3://{former}/".encode(), f"s3://{bucket}/".encode())
        twin._etag = twin.checksum_value = twin.checksum_algorithm = None
        twin.value = body
    return twin
