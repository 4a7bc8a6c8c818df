"""One side of a publication, in a process of its own, as in a release: `upload` is the pod's, `publish` the worker's.

    python -m benchmarks.publishing.process upload ENDPOINT FOLDER
    python -m benchmarks.publishing.process publish ENDPOINT

Each prints {"seconds", "peak_mib"} as its last line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.processes import peak_mib

BUCKET = "bench"
MODEL = "bench"
WORK = f"work/{MODEL}/1/convert"
GOLDEN = f"incoming/{MODEL}/1/golden.npz"


def main() -> None:
    """Do what the command line says."""
    side, endpoint = sys.argv[1], sys.argv[2]
    seconds = upload(endpoint, Path(sys.argv[3])) if side == "upload" else publish(endpoint)
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib()}))


def upload(endpoint: str, folder: Path) -> float:
    """Bring the files of a folder into S3 as converters do, and leave their result; return the seconds it took."""
    os.environ["AWS_ENDPOINT_URL"] = endpoint
    from slipway_pod.storage.s3 import Store

    store = Store()
    store.delete(f"s3://{BUCKET}/{WORK}/result.json")  # as converters begin; it also opens the connection
    began = time.monotonic()
    files = store.upload_folder(folder, f"s3://{BUCKET}/{WORK}/repository/{MODEL}/1")
    for entry in files:
        entry["path"] = f"{MODEL}/1/{entry['path']}"
    result = {
        "signature": {"inputs": [], "outputs": []},
        "repository": {"files": files, "configs": {MODEL: ""}},
    }
    store.write_json(result, f"s3://{BUCKET}/{WORK}/result.json")
    return time.monotonic() - began


def publish(endpoint: str) -> float:
    """Publish what a converter has left, as the task `publish` does; return the seconds it took."""
    with airflow(endpoint):
        from slipway.hooks.s3_store import ModelStoreHook
        from slipway.registry.registry import ModelRegistry, StoredSource
        from slipway_core.publishing.conversion_result import parse_converted
        from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
        from slipway_core.tensors import ModelSignature

        store = ModelStoreHook(BUCKET)
        golden = FileEntry.of(store.require(GOLDEN, remedy="lay it"))  # it also opens the connection
        began = time.monotonic()
        made = parse_converted(store.read_json(f"{WORK}/result.json") or {}, MODEL, 1)
        config = b"name"
        sources: dict[str, bytes | StoredSource] = {f"{MODEL}/config.pbtxt": config}
        for path, place in made.places.items():
            sources[path] = StoredSource(
                f"{WORK}/{place}", measured=made.files[path], parts=made.parts.get(path)
            )
        manifest = Manifest(
            model=MODEL,
            version=1,
            created_at=datetime.now(UTC),
            files={f"{MODEL}/config.pbtxt": FileEntry.of(config), **made.files},
            config_sha256="0" * 64,
            signature=ModelSignature(inputs=(), outputs=()),
            source=Provenance(files={"golden.npz": golden}),
        )
        assert ModelRegistry(store).publish(manifest, sources, GOLDEN), "published now, not before"
        return time.monotonic() - began


@contextmanager
def airflow(endpoint: str) -> Iterator[None]:
    """Give an Airflow of this process alone, whose connection is the object store's."""
    value = {
        "conn_type": "aws",
        "login": os.environ["AWS_ACCESS_KEY_ID"],
        "password": os.environ["AWS_SECRET_ACCESS_KEY"],
        "extra": {"endpoint_url": endpoint, "region_name": "us-east-1"},
    }
    os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(value)
    with TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home
        yield


if __name__ == "__main__":
    main()
