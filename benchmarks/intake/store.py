"""An S3 with the history of years in it: models, versions of each, events of each release; one version is new.

    python -m benchmarks.intake.store MODELS VERSIONS EVENTS

It prints its port and serves until its standard input ends. The events are names only.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

from benchmarks.sorted_store import serve


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


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    size = [int(number) for number in sys.argv[1:]]
    print(serve(incoming(*size[:2]), event_names(*size)).get_host_and_port()[1], flush=True)
    sys.stdin.read()
