#!/usr/bin/env python3
"""Loads a published version on its own tritonserver, and writes down what happens.

The server runs in this pod, on loopback, in explicit mode, and ends with it: a version that crashes its server harms
nobody here. The version is downloaded and each file checked against the manifest; then it is

  loaded, with its real configuration and warm-up, on as many new servers as --loads says, the first answer timed;
  asked one golden row again and again, on every instance of the model;
  asked many golden rows while the memory of the server is watched;
  asked at and beyond the limits of its inputs, and a golden row again after each of these.

Nothing is judged: `result.json` under the destination has what happened, and the gate compares it with the limits.

Exit codes: 0 done, whatever happened to the server; 2 wrong usage; 3 a bad input; 4 the version is not what was
published; 75 try again later (S3 does not answer); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

from slipway_pod.models.golden import read_golden
from slipway_pod.models.rows import GoldenRows, add_row_axis_argument
from slipway_pod.models.tensors import Tensor
from slipway_pod.program.arguments import new_parser, not_negative, positive, s3_url, whole
from slipway_pod.program.progress import say
from slipway_pod.program.result import run_to_result
from slipway_pod.program.scratch import scratch_folder
from slipway_pod.program.software import tool_versions
from slipway_pod.program.supervision import supervised
from slipway_pod.smoke_test.phases import Plan
from slipway_pod.smoke_test.sequence import SmokeTest
from slipway_pod.smoke_test.serving_paths import lead_here
from slipway_pod.storage.s3 import Store
from slipway_pod.verification.download import download
from slipway_pod.verification.version_manifest import parse_source

PACKAGES = ("boto3", "grpcio", "numpy", "tritonclient")
STALL_S = 60.0
# Where KServe's storage initializer lays the repository.
SERVING_ROOT = "/mnt/models"
WORKERS = 4


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--source", required=True, help="s3://BUCKET/models/MODEL/VERSION/repository")
    add("--manifest-sha256", default="", metavar="HEX", help="the digest that its manifest must have")
    add("--golden", required=True, type=s3_url, help="golden set (.npz), with an array for each input")
    add_row_axis_argument(parser)
    add("--loads", type=whole, default=3, metavar="N", help="on a new server each (default: %(default)s)")
    add(
        "--requests",
        type=whole,
        default=1000,
        metavar="N",
        help="while the memory is watched (default: %(default)s)",
    )
    add("--concurrency", type=whole, default=4, metavar="N", help="of these, at once (default: %(default)s)")
    add(
        "--load-timeout-s",
        type=positive,
        default=120.0,
        metavar="S",
        help="of one load (default: %(default)s)",
    )
    add(
        "--request-timeout-s",
        type=positive,
        default=10.0,
        metavar="S",
        help="of one answer (default: %(default)s)",
    )
    text = "while the memory is watched (default: %(default)s)"
    add("--memory-timeout-s", type=positive, default=60.0, metavar="S", help=text)
    add("--timeout-s", type=positive, default=300.0, metavar="S", help="of all of it (default: %(default)s)")
    add(
        "--serving-root",
        action="append",
        metavar="FOLDER",
        help="the repository's folder on the servers: paths below it lead to this pod's (default: /mnt/models)",
    )
    add("--abs-tolerance", type=not_negative, default=1e-3, metavar="X", help="(default: %(default)s)")
    add("--rel-tolerance", type=not_negative, default=1e-2, metavar="X", help="(default: %(default)s)")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    return parser.parse_args(argv)


def run(store: Store, result: dict[str, Any], options: argparse.Namespace) -> None:
    """Download the version and do all phases; fill in the result as it goes."""
    version = parse_source(options.source)
    ends_at = time.monotonic() + options.timeout_s
    with scratch_folder("smoke-test-") as folder:
        repository = folder / "repository"
        supervised(
            lambda progress: download(
                store, version, [], repository, progress, WORKERS, options.manifest_sha256
            ),
            options.timeout_s,
            STALL_S,
        )
        golden_file = folder / "golden.npz"
        store.download(options.golden, golden_file)
        say("download", f"{version}, checked against its manifest")
        lead_here(repository, options.serving_root or [SERVING_ROOT])
        plan = Plan(
            model=version.model,
            repository=repository,
            log=folder / "server.log",
            loads=options.loads,
            requests=options.requests,
            concurrency=options.concurrency,
            load_timeout_s=options.load_timeout_s,
            request_timeout_s=options.request_timeout_s,
            memory_timeout_s=options.memory_timeout_s,
            ends_at=ends_at,
            abs_tolerance=options.abs_tolerance,
            rel_tolerance=options.rel_tolerance,
        )
        result |= {"model": version.model, "version": version.number, "loads": [], "server": None}
        SmokeTest(plan, partial(_golden_rows, golden_file, options), result).all_loads()


def _golden_rows(path: Path, options: argparse.Namespace, inputs: tuple[Tensor, ...]) -> GoldenRows:
    return read_golden(path, options.golden, inputs, options.row_axis)


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = arguments(argv)
    return run_to_result(
        options.destination,
        partial(run, options=options),
        tools=partial(tool_versions, PACKAGES),
        subject="smoke test",
        done="done",
    )


if __name__ == "__main__":
    raise SystemExit(main())
