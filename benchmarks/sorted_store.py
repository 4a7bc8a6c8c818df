"""moto's S3 server with a bucket of hundred thousands of objects, which moto does not bear as it is.

An object of moto's takes 3.5 KiB. So objects may be names only here, and become objects when they are listed; who
reads one finds none. And moto goes through all names at each listing: here the names are sorted, and a listing begins
where its prefix does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from datetime import UTC, datetime

from moto.s3.models import FakeBucket, FakeKey, S3Backend, s3_backends
from moto.server import ThreadedMotoServer

from slipway_sandbox.host.ports import LOOPBACK

BUCKET = "bench"
_ACCOUNT = "123456789012"
_REGION = "us-east-1"
_WRITTEN_AT = datetime(2026, 1, 2, tzinfo=UTC)


def page_of(names: list[str], prefix: str, delimiter: str, after: str, limit: int) -> tuple[list[str], bool]:
    """Return at most `limit` of what lies below `prefix` and after `after`, folders once; and whether there is more.

    `names` are sorted.
    """
    place = max(bisect_left(names, prefix), bisect_right(names, after))
    page: list[str] = []
    while place < len(names) and names[place].startswith(prefix):
        name = names[place]
        end = name.find(delimiter, len(prefix)) if delimiter else -1
        entry = name if end < 0 else name[: end + 1]
        place = place + 1 if end < 0 else bisect_left(names, entry[:-1] + chr(ord(delimiter) + 1), place)
        if entry <= after:
            continue
        if len(page) == limit:
            return page, True
        page.append(entry)
    return page, False


def serve(objects: Iterable[tuple[str, bytes]], only_names: Iterable[str]) -> ThreadedMotoServer:
    """Fill the bucket and start the server, on a port of loopback that is free.

    :param objects: keys and contents.
    :param only_names: keys that are listed, and never read.
    """
    backend = s3_backends[_ACCOUNT]["aws"]
    backend.create_bucket(BUCKET, _REGION)
    filled = backend.get_bucket(BUCKET)
    for name, body in objects:
        filled.keys[name] = _object(name, body)
    names = sorted({*filled.keys, *only_names})

    def list_page(
        _: S3Backend,
        *,
        bucket: FakeBucket,
        prefix: str | None,
        delimiter: str | None,
        continuation_token: str | None,
        start_after: str | None,
        max_keys: int,
    ) -> tuple[list[FakeKey | str], bool, str | None]:
        for name in bucket.keys:
            if names[min(bisect_left(names, name), len(names) - 1)] != name:
                insort(names, name)  # it was written meanwhile
        after = continuation_token or start_after or ""
        page, is_cut = page_of(names, prefix or "", delimiter or "", after, max_keys)
        entries = [
            name if delimiter and name.endswith(delimiter) else bucket.keys.get(name) or _object(name, b"{}")
            for name in page
        ]
        return entries, is_cut, page[-1] if is_cut else None

    S3Backend.list_objects_v2 = list_page  # type: ignore[assignment, method-assign]
    server = ThreadedMotoServer(LOOPBACK, 0, verbose=False)
    server.start()
    return server


def _object(name: str, body: bytes) -> FakeKey:
    made = FakeKey(name, body, account_id=_ACCOUNT, region_name=_REGION, bucket_name=BUCKET)
    made.last_modified = _WRITTEN_AT.replace(tzinfo=None)
    return made
