"""The frame of every converter of single models: its arguments, its run, and the upload of the model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from slipway_pod.conversion.optimisation import effect_in_words
from slipway_pod.conversion.reference import all_pass, examine
from slipway_pod.conversion.rewrite import OPTIONAL
from slipway_pod.conversion.run import GOLDEN_FILE, MODEL_FILE, ConversionRun
from slipway_pod.models.batch_tensors import add_batch_tensors_argument
from slipway_pod.models.rows import add_row_axis_argument
from slipway_pod.parity.outputs import require_parity
from slipway_pod.parity.rules import add_rule_arguments
from slipway_pod.program.arguments import new_parser, positive, s3_url, whole
from slipway_pod.program.limits import Limits
from slipway_pod.program.progress import say
from slipway_pod.program.result import run_to_result
from slipway_pod.program.scratch import scratch_folder
from slipway_pod.program.software import tool_versions, upload_software_list
from slipway_pod.storage.s3 import Store

Result = dict[str, Any]


def converter_parser(about: str | None, precisions: Sequence[str] = ("fp32",)) -> argparse.ArgumentParser:
    """Return a parser with the arguments that every converter has."""
    parser = new_parser(about)
    add = parser.add_argument
    add("--source", required=True, type=s3_url, help="the trained model, s3://BUCKET/KEY")
    add("--golden", required=True, type=s3_url, help="the golden set, s3://BUCKET/KEY.npz")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    add("--precision", choices=precisions, default="fp32", help="of the converted model (%(default)s)")
    add_row_axis_argument(parser)
    add_batch_tensors_argument(parser)
    add_rule_arguments(parser)
    text = "limit for all tools together, in seconds (%(default)s)"
    add("--timeout-s", type=positive, default=600.0, metavar="N", help=text)
    text = "limit for each tool's own memory, in MiB (%(default)s)"
    add("--memory-mib", type=whole, default=1792, metavar="N", help=text)
    return parser


def run_converter(
    options: argparse.Namespace, convert: Callable[[ConversionRun, Result], None], packages: Iterable[str]
) -> int:
    """Run `convert`, which fills in the result and hands a model over; return the program's exit code.

    `packages` are those whose versions the result names.
    """

    def work(store: Store, result: Result) -> None:
        result["precision"] = options.precision
        with scratch_folder("convert-") as folder:
            limits = Limits(options.timeout_s, options.memory_mib)
            convert(ConversionRun(options, store, folder, limits), result)

    def versions() -> dict[str, str]:
        return tool_versions(packages)

    return run_to_result(options.destination, work, tools=versions, last=upload_software_list)


def run_onnx_converter(
    options: argparse.Namespace,
    make: Callable[[ConversionRun], Result],
    packages: Iterable[str],
    *,
    by_library: bool = False,
    plainly: Callable[[ConversionRun], Result] | None = None,
) -> int:
    """Run a converter whose `make` leaves `model.onnx` and the reference, and return its part of the result.

    :param by_library: the reference is what the source's own library answers; see `examine`.
    :param plainly: makes `model.onnx` again, without the passes that nobody has asked for.
    """

    def convert(run: ConversionRun, result: Result) -> None:
        run.fetch(options.golden, GOLDEN_FILE)
        result.update(make(run))
        result.update(run.tool("compare", lambda: examine(run, by_library=by_library)))
        applied = any(
            one["outcome"] == "applied" for one in result.get("passes", ()) if one["name"] in OPTIONAL
        )
        if plainly is not None and applied and not all_pass(result["parity"]):
            say("parity", f"not alike: made again without {' and '.join(OPTIONAL)}")
            result.update(plainly(run))
            result.update(run.tool("compare", lambda: examine(run, by_library=by_library)))
        hand_over(run, result, run.folder / MODEL_FILE)

    return run_converter(options, convert, packages)


def hand_over(run: ConversionRun, result: Result, model: Path) -> None:
    """Upload the model, if it answers as its source does; its parity table is in the result."""
    require_parity(result["parity"], run.options, effect_in_words(result.get("optimisation")))
    say("parity", f"{result['parity'][0]['rows']} rows alike in {len(result['parity'])} outputs")
    result["model"] = run.put(model)
    result["files"] = [result["model"]]
