"""An S3 with the history of years in it: models, versions of each, events of each release; one version is new.

    python -m benchmarks.intake.store MODELS VERSIONS EVENTS

It prints its port and serves until its standard input ends. It is moto's server but for two things that moto does not
bear at this size. An object of moto's takes 3.5 KiB, five gigabytes in all: here the events are names only, and become
objects when they are listed. And moto goes through all names at each listing: here the names are sorted, and a listing
begins where its prefix does.
"""

from __future__ import annotations

import json
import logging
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime

from moto.s3.models import FakeBucket, FakeKey, S3Backend, s3_backends
from moto.server import ThreadedMotoServer

from include.sandbox.host.settings import LOOPBACK

BUCKET = "bench"
_ACCOUNT = "123456789012"
_REGION = "us-east-1"
_WRITTEN_AT = datetime(2026, 1, 2, tzinfo=UTC)


def event_names(models: int, versions: int, events: int) -> Iterator[str]:
    """Yield the keys of the records: each version was promoted, and its release has ended."""
    kinds = ["release_started", *["window_judged"] * (events - 3), "promoted", "release_finished"]
    for model in range(models):
        for version in range(1, versions + 1):
            for seq, kind in enumerate(kinds, start=1):
                yield f"records/model-{model:03}/{version}/{seq:06}-{kind}.json"


def incoming(models: int, versions: int) -> Iterator[tuple[str, bytes]]:
    """Yield what training has left for each version, and its content; the last version of one model is new."""
    for model in range(models):
        for version in range(1, versions + (2 if model == models // 2 else 1)):
            folder = f"incoming/model-{model:03}/{version}"
            described = {"model": f"model-{model:03}", "version": version}
            yield f"{folder}/ready.json", json.dumps(described).encode()
            yield f"{folder}/model.onnx", b"model"
            yield f"{folder}/golden.npz", b"golden"


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


def serve(models: int, versions: int, events: int) -> ThreadedMotoServer:
    """Fill the bucket and start the server, on a port of loopback that is free."""
    backend = s3_backends[_ACCOUNT]["aws"]
    backend.create_bucket(BUCKET, _REGION)
    bucket = backend.get_bucket(BUCKET)
    for name, body in incoming(models, versions):
        bucket.keys[name] = _object(name, body)
    names = sorted([*bucket.keys, *event_names(models, versions, events)])

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


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    print(serve(*map(int, sys.argv[1:])).get_host_and_port()[1], flush=True)
    sys.stdin.read()
