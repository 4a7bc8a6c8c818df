#!/usr/bin/env python3
"""Measures a model on a Triton with perf_analyzer, and another one beside it in the same run.

The requests are rows of the golden set. Each round measures the candidate and the baseline with a fixed
number of requests after a warm-up, in turns, so that what slows the machine meets both. Latencies and
throughput are computed from the time stamps of the single requests. Writes `raw/ROLE-ROUND.json` and, last,
`result.json` under the destination.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 4 the candidate fails requests; 75 try again later (S3
or Triton does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from slipway_pod.benchmark.figures import Load
from slipway_pod.benchmark.hanging_rounds import run_round
from slipway_pod.benchmark.load import (
    BenchmarkRun,
    Round,
    Subject,
    checked,
    ended_badly,
    load_parser,
    measure_in_turns,
    run_benchmark,
)
from slipway_pod.benchmark.perf_analyzer_files import figures_of_spans, read_spans
from slipway_pod.benchmark.single_request import shortest_s
from slipway_pod.models.answers import rows_of_a_request
from slipway_pod.models.golden import read_golden
from slipway_pod.models.rows import GoldenRows, add_row_axis_argument
from slipway_pod.models.tensors import Signature, Tensor
from slipway_pod.program.arguments import s3_url
from slipway_pod.program.progress import say
from slipway_pod.storage.s3 import Store
from slipway_pod.storage.upload import MEBIBYTE

PACKAGES = ("numpy", "tritonclient")
MAX_ROWS = 256
MAX_INPUT_BYTES = 8 * MEBIBYTE
# perf_analyzer ends with 2 when its own stability test is not content; the requests were made all the same.
MEASURED = (0, 2)
ALONE_LIMIT_S = 60.0


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = load_parser(__doc__)
    text = "where the requests come from, s3://BUCKET/….npz"
    parser.add_argument("--golden", required=True, type=s3_url, help=text)
    add_row_axis_argument(parser)
    return checked(parser, parser.parse_args(argv))


def work(options: argparse.Namespace, store: Store, folder: Path, result: dict[str, Any]) -> None:
    """Measure all rounds; fill in `result` as it goes, so that a failure still tells what was measured."""
    golden = folder / "golden.npz"
    store.download(options.golden, golden)
    run = BenchmarkRun.open(options, store, folder)
    streamed: set[str] = set()
    for subject in run.subjects:
        metadata, config = run.server.describe(subject)
        inputs = tensors_of(metadata, config)
        columns = read_golden(golden, options.golden, inputs, options.row_axis)
        batched = int(config.get("max_batch_size", 0)) > 0
        size = rows_of_a_request(Signature(inputs, ()), columns) or 1
        rows = write_requests(columns, batched, requests_of(run, subject), size)
        say("prepare", f"{subject}, {rows} golden rows")
        if config.get("model_transaction_policy", {}).get("decoupled"):
            streamed.add(subject.role)
            continue
        request = columns.take([row % columns.rows for row in range(size)])
        limit_s = min(ALONE_LIMIT_S, run.deadline.remaining_s())
        model = (run.server.client, subject.model, subject.version)
        alone_s = shortest_s(*model, inputs, request, limit_s)
        if alone_s is not None:
            run.request_s[subject.role] = alone_s
    measure_in_turns(run, partial(measure, run, streamed), result)


# ---------------------------------------------------------------- the requests


def tensors_of(metadata: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return a model's inputs, as Triton's metadata has them; which are optional its configuration says."""
    optional = {entry["name"] for entry in config.get("input", ()) if entry.get("optional")}
    return tuple(
        Tensor(
            item["name"],
            item["datatype"],
            tuple(int(size) for size in item["shape"]),
            item["name"] in optional,
        )
        for item in metadata["inputs"]
    )


def requests_of(run: BenchmarkRun, subject: Subject) -> Path:
    """Return where a model's requests lie."""
    return run.folder / f"{subject.role}.requests.json"


def write_requests(columns: GoldenRows, batched: bool, target: Path, size: int = 1) -> int:
    """Write perf_analyzer's input file from rows spread over the golden set; return the number of requests.

    `batched` says that the server adds the batch dimension itself, `size` how many rows a request must have.
    """
    first = columns.take([0])
    chosen = spread(columns.rows, size * sum(array.nbytes for array in first.values()))
    taken = (columns.take([(row + more) % columns.rows for more in range(size)]) for row in chosen)
    steps = [
        {column: as_content(array[0] if batched else array) for column, array in request.items()}
        for request in taken
    ]
    target.write_text(json.dumps({"data": steps}))
    return len(steps)


def spread(rows: int, row_bytes: int) -> list[int]:
    """Return the indices of rows spread evenly over the set, as many as stay within the limits, at least one."""
    count = max(1, min(rows, MAX_ROWS, MAX_INPUT_BYTES // max(1, row_bytes)))
    return [index * rows // count for index in range(count)]


def as_content(value: Any) -> dict[str, Any]:
    """Return one input of one request in perf_analyzer's form; numbers as their bytes, so that no digit is lost."""
    shape = list(value.shape)
    if value.dtype.kind in "US":
        texts = value.astype(str).reshape(-1).tolist()
        return {"content": texts, "shape": shape or [1]}
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return {"content": {"b64": base64.b64encode(little.tobytes()).decode()}, "shape": shape or [1]}


# ---------------------------------------------------------------- the measurement


def measure(run: BenchmarkRun, streamed: Collection[str], subject: Subject, number: int, load: Load) -> Round:
    """Measure one round of one model, over a stream if its role is among `streamed`."""
    export = run.folder / f"{subject.role}-{number}.export.json"
    command = perf_analyzer_command(run.options, subject, load, requests_of(run, subject), export)
    if subject.role in streamed:
        # A decoupled model answers over streams alone; a request lasts until its last answer.
        command.append("--streaming")
    ended = run_round(run, subject, load, command)
    spans = read_spans(export) if ended.code in MEASURED and export.exists() else []
    if len(spans) < load.requests(run.options.requests):
        raise ended_badly(run.server, subject, command[0], ended)
    export.unlink()
    return Round(figures_of_spans(spans), {"requests_ns": spans})


def perf_analyzer_command(
    options: argparse.Namespace, subject: Subject, load: Load, requests: Path, export: Path
) -> list[str]:
    """Return the call of perf_analyzer for one round: so many requests, and no searching for a stable figure."""
    if load.request_rate_rps is not None:
        rate = f"{load.request_rate_rps:g}"
        level = ["--request-rate-range", f"{rate}:{rate}"]
    else:
        level = ["--concurrency-range", f"{load.concurrency}:{load.concurrency}"]
    return [
        "perf_analyzer", "-m", subject.model, "-x", subject.version, "-u", options.server, "-i", "grpc",
        *level,
        "--request-count", str(load.requests(options.requests)), "--warmup-request-count", str(options.warmup_requests),
        "--input-data", str(requests), "--profile-export-file", str(export),
        "--stability-percentage", "999", "--max-trials", "1",
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    return run_benchmark(arguments(argv), work, PACKAGES, "perf_analyzer")


if __name__ == "__main__":
    raise SystemExit(main())
