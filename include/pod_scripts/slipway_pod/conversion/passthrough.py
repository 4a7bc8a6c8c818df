"""The frame of the converters that check a source's files and copy them into a Triton model repository."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from slipway_pod.conversion.source_files import ARCHIVES, fetch_source
from slipway_pod.models.golden import read_golden
from slipway_pod.models.rows import add_row_axis_argument
from slipway_pod.models.tensors import Signature
from slipway_pod.program.arguments import new_parser, plain_name, positive, s3_url
from slipway_pod.program.limits import Limits
from slipway_pod.program.progress import say
from slipway_pod.program.result import run_to_result
from slipway_pod.program.scratch import scratch_folder
from slipway_pod.program.software import tool_versions, upload_software_list
from slipway_pod.storage.s3 import Store
from slipway_pod.storage.upload import MEBIBYTE

READY = "ready.json"
PACKAGES = ("numpy", "protobuf", "tritonclient")


@dataclass(frozen=True)
class Checked:
    """The result of a check: each model's config.pbtxt by name, the signature, and further parts of the result."""

    configs: dict[str, str]
    signature: Signature
    more: dict[str, Any] = field(default_factory=dict)


# Checks the files in the first folder and moves them to where they belong in the second, a model repository.
# Raises PodError.
Check = Callable[[Path, Path, argparse.Namespace], Checked]


def passthrough_parser(about: str | None, *, max_size_mib: float) -> argparse.ArgumentParser:
    """Return a parser with the arguments of these converters."""
    parser = new_parser(about)
    add, archives = parser.add_argument, ", ".join(ARCHIVES)
    add("--source", required=True, type=s3_url, help=f"a folder, or an archive ({archives}), in S3")
    add("--golden", required=True, type=s3_url, help="the golden set, s3://BUCKET/….npz")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    add("--model", required=True, type=plain_name, help="the name under which clients address it")
    add("--version", required=True, type=int, help="the version under which all of it will be served")
    add_row_axis_argument(parser)
    add("--max-size-mib", type=positive, default=max_size_mib, help="for all files together (%(default)s)")
    add("--timeout-s", type=positive, default=600.0, help="limit for the checks, in seconds (%(default)s)")
    return parser


def pass_through(options: argparse.Namespace, check: Check) -> int:
    """Fetch, check, upload; leave the result and the list of software; return the exit code."""
    return run_to_result(
        options.destination,
        partial(_work, options, check),
        tools=lambda: tool_versions(PACKAGES),
        last=upload_software_list,
    )


def _work(options: argparse.Namespace, check: Check, store: Store, result: dict[str, Any]) -> None:
    with scratch_folder("convert-") as folder:
        source, repository, golden = folder / "source", folder / "repository", folder / "golden.npz"
        source.mkdir()
        result["left_out"] = fetch_source(
            store,
            options.source,
            source,
            limit_bytes=int(options.max_size_mib * MEBIBYTE),
            but=(READY, options.golden.removeprefix(f"{options.source}/")),
        )
        store.download(options.golden, golden)

        def all_checks() -> tuple[Checked, int]:
            checked = check(source, repository, options)
            columns = read_golden(golden, options.golden, checked.signature.inputs, options.row_axis)
            return checked, columns.rows

        # Untrusted files are read, and perhaps run, in a process that may crash or loop.
        checked, rows = Limits(options.timeout_s).run("check", all_checks)
        files = store.upload_folder(repository, f"{options.destination}/repository")
        say("store", f"{options.destination}/repository, {len(files)} files")
    result["repository"] = {"files": files, "configs": checked.configs}
    result |= {"signature": checked.signature.to_json(), **checked.more, "golden_rows": rows}
