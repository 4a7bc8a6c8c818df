"""One publication, in a process of its own: `lay` puts the files into work/, `publish` publishes them.

    python -m benchmarks.publishing_process lay|publish ENDPOINT FILES TOTAL_BYTES [HASH_BYTES]

`publish` prints {"seconds", "peak_mib"} as its last line. With HASH_BYTES it also hashes an object of that size.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory

from include.sandbox.settings import LOOPBACK

BUCKET = "bench"
MODEL = "bench"
_BLOCK = 1 << 20


def content(number: int, size_bytes: int) -> bytes:
    """The n-th file: no two blocks of any are alike, so that nothing is saved by chance."""
    seed = hashlib.shake_256(str(number).encode()).digest(_BLOCK)
    blocks = []
    for block in range(-(-size_bytes // _BLOCK)):
        blocks.append(block.to_bytes(8, "big") + seed[8:])
    return b"".join(blocks)[:size_bytes]


def main() -> None:
    """Does what the command line says."""
    mode, endpoint, files, total_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    hash_bytes = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    with TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home
        _connect("aws_default", endpoint)
        from slipway.hooks.store import ModelStoreHook

        store = ModelStoreHook(BUCKET)
        if mode == "lay":
            for number in range(files):
                store.write(f"work/{MODEL}/1/convert/{number}.bin", content(number, total_bytes // files))
            store.write(f"incoming/{MODEL}/1/golden.npz", b"golden")
        else:
            _publish(store, files, hash_bytes)


def _connect(name: str, endpoint: str) -> None:
    extra = {"endpoint_url": endpoint, "region_name": "us-east-1", "config_kwargs": {"read_timeout": 300}}
    value = {
        "conn_type": "aws",
        "login": os.environ["AWS_ACCESS_KEY_ID"],
        "password": os.environ["AWS_SECRET_ACCESS_KEY"],
        "extra": extra,
    }
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(value)


def _publish(store: object, files: int, hash_bytes: int) -> None:
    from slipway.hooks.registry import ModelRegistry, StoredSource
    from slipway.hooks.store import ModelStoreHook

    from include.model_release.manifest import FileEntry, Manifest, Provenance
    from include.model_release.signature import ModelSignature

    assert isinstance(store, ModelStoreHook)
    keys = [f"work/{MODEL}/1/convert/{number}.bin" for number in range(files)]
    facts = [store.stat(key) for key in keys]
    entries = {
        f"{MODEL}/1/{number}.bin": FileEntry(size_bytes=fact.size_bytes, sha256=fact.sha256 or "")
        for number, fact in enumerate(facts)
        if fact is not None
    }
    config = b"name"
    path = f"{MODEL}/config.pbtxt"
    sources = {
        path: config,
        **{name: StoredSource(key) for name, key in zip(entries, keys, strict=True)},
    }
    golden = Provenance(files={"golden.npz": FileEntry.of(b"golden")})
    manifest = Manifest(
        model=MODEL,
        version=1,
        created_at=datetime.now(UTC),
        files={path: FileEntry.of(config), **entries},
        config_sha256="0" * 64,
        signature=ModelSignature(inputs=(), outputs=()),
        source=golden,
    )
    # What the files are, the conversion has measured; from here on publishing has only S3 to ask.
    began = time.monotonic()
    written = ModelRegistry(store).publish(manifest, sources, f"incoming/{MODEL}/1/golden.npz")
    seconds = time.monotonic() - began
    assert written, "published now, not before"
    if hash_bytes:
        with _made_up_object(hash_bytes) as endpoint:
            _connect("made_up", endpoint)
            assert ModelStoreHook(BUCKET, "made_up").sha256("k")[1] == hash_bytes
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib}))


@contextmanager
def _made_up_object(size_bytes: int) -> Iterator[str]:
    """The address of a server, in a process of its own, whose every object has this many bytes."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(size_bytes, theirs))
    process.start()
    try:
        yield f"http://{LOOPBACK}:{ours.recv()}"
    finally:
        process.kill()
        process.join()


def serve(size_bytes: int, pipe: Connection) -> None:
    """Answers every GET with that many bytes; says its port through the pipe."""
    block = bytes(_BLOCK)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(size_bytes))
            self.send_header("ETag", '"made up"')
            self.end_headers()
            for _ in range(size_bytes // _BLOCK):
                self.wfile.write(block)

    server = HTTPServer((LOOPBACK, 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


if __name__ == "__main__":
    main()
