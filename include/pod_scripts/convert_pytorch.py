#!/usr/bin/env python3
"""Converts a PyTorch model to ONNX: simplify, optimise, fp16 or int8, compare with the module's own forward.

Reads the model and the golden set from S3, writes `model.onnx`, `sbom.json` (the packages of this image) and,
last, `result.json` under the destination. Three kinds of source:

  torchscript   a file of torch.jit.save
  export        a file of torch.export.save (.pt2); reading one unpickles, so it needs --trusted
  state_dict    a file of torch.save(module.state_dict()), with the module's class in a Python file beside it
                (--module NAME:CLASS --module-file …); that file is run, so it needs --trusted

Golden columns are named after the arguments of forward. Exit codes: 0 done; 2 wrong usage; 3 the input is
bad; 4 the converted model answers otherwise than its source; 75 try again later (S3 does not answer, time is
up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import logging
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway_pod.conversion.frame import converter_parser, run_onnx_converter
from slipway_pod.conversion.precision import (
    PRECISIONS,
    check_precision,
    fetch_calibration,
    precision_arguments,
)
from slipway_pod.conversion.reference import keep_reference, read_golden_of
from slipway_pod.conversion.rewrite import rewrite
from slipway_pod.conversion.run import GOLDEN_FILE, ConversionRun
from slipway_pod.errors import PodError, first_line
from slipway_pod.models.answers import BATCH_ROWS, require_batch, rows_error
from slipway_pod.models.golden import read_arrays, require_columns
from slipway_pod.models.onnx_files import open_session, read_signature, save
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Signature
from slipway_pod.program.arguments import json_object, names, s3_url
from slipway_pod.program.progress import say

EXPORTED_FILE = "exported.onnx"
PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxscript", "onnxslim", "torch")
# The lowest that torch's own exporter writes; the exporter for TorchScript knows it too.
OPSET = 18
WHY_TRUST = {
    "export": "torch.export.load unpickles parts of the file and evaluates expressions in it",
    "state_dict": "the file with the module's class is run",
}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = converter_parser(__doc__, PRECISIONS)
    add, formats = parser.add_argument, ["torchscript", "export", "state_dict"]
    add("--format", choices=formats, help="of the source (default: by its name)")
    add("--trusted", action="store_true", help="the source is trusted: its code may be run")
    add("--module", type=module_name, metavar="NAME:CLASS", help="state_dict: the module's class")
    add("--module-file", type=s3_url, help="state_dict: the Python file with the class, s3://BUCKET/KEY.py")
    text = "state_dict: for the constructor"
    add("--module-arguments", type=json_object, default={}, metavar="JSON", help=text)
    add("--inputs", type=names, default=(), help="the golden columns that forward takes, in order: a,b")
    text = "names for what forward returns, in order (output, or output_0…)"
    add("--outputs", type=names, default=(), help=text)
    precision_arguments(parser)
    options = parser.parse_args(argv)
    check_precision(parser, options)
    if options.format is None:
        by_name = "export" if options.source.endswith(".pt2") else "torchscript"
        options.format = "state_dict" if options.module else by_name
    if (options.format == "state_dict") != bool(options.module and options.module_file):
        parser.error("--module and --module-file belong to --format state_dict, which wants both")
    return options


def module_name(text: str) -> str:
    """Return an argument such as `package.module:Class`."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", text):
        raise argparse.ArgumentTypeError(f"expected MODULE:CLASS, found {text!r}")
    return text


def convert(run: ConversionRun) -> dict[str, Any]:
    """Make `model.onnx` and the reference of the source; return its part of the result."""
    options = run.options
    require_trust(options)
    path = run.fetch(options.source, "source.pt2" if options.format == "export" else "source.pt")
    if options.module_file:
        run.fetch(options.module_file, "module.py")
    fetch_calibration(run)
    made = run.tool("convert", lambda: convert_loaded(run, path))
    return {**made, **rewrite(run, run.folder / EXPORTED_FILE)}


def require_trust(options: argparse.Namespace) -> None:
    """Raise PodError (UserError) for a format that runs code and is not marked as trusted."""
    if options.format in WHY_TRUST and not options.trusted:
        raise PodError(
            "UserError",
            f"{options.source} is not loaded: {WHY_TRUST[options.format]}, which can run any code in this pod, "
            "with its rights on the bucket",
            expected="TorchScript (torch.jit.save), which holds no Python code, or trusted: true",
            found=f"format {options.format}, not marked as trusted",
            remedy="save it with torch.jit.trace and torch.jit.save; or, if you know who wrote the files and that "
            "nobody else could, write trusted: true under conversion in the release file",
        )


def convert_loaded(run: ConversionRun, path: Path) -> dict[str, Any]:
    """Load the source, write `exported.onnx`, and keep what the source answers by its own forward."""
    # Torch's exporters warn of every library that is not installed.
    warnings.simplefilter("ignore")
    import torch

    logging.disable(logging.WARNING)
    model = loaded(run, path)
    arrays = read_arrays(run.folder / GOLDEN_FILE, run.options.golden)
    columns = run.options.inputs or columns_of(model, arrays)
    require_columns(run.options.golden, arrays, columns)
    golden = {name: arrays[name] for name in columns}
    forward = model.module() if run.options.format == "export" else model
    with torch.inference_mode():
        sample = answers_of(forward, {name: array[:2] for name, array in golden.items()}, run.options.outputs)
    target = run.folder / EXPORTED_FILE
    try:
        export(model, run.options.format, golden, list(sample), target)
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            "The model cannot be written as ONNX",
            expected="a module that torch.onnx can export with a free batch dimension",
            found=f"{type(error).__name__}: {first_line(error)}",
            remedy="try torch.onnx.export in the training environment: it names the part that cannot be exported",
        ) from error
    signature = read_signature(open_session(target, "the exported model", optimise=False))
    require_free_batch(signature)
    golden = read_golden_of(run, signature)
    with torch.inference_mode():
        keep_reference(run, golden, lambda rows: in_batches(forward, rows, run.options.outputs))
    say("export", f"{run.options.format}, {', '.join(columns)} in, {', '.join(sample)} out")
    return {"source": {"kind": run.options.format, "inputs": list(columns), "outputs": list(sample)}}


def loaded(run: ConversionRun, path: Path) -> Any:
    """Return the model in inference mode, as its format says.

    :raises PodError: of kind ModelInvalidError.
    """
    import torch

    options = run.options
    try:
        if options.format == "export":
            return torch.export.load(path)
        if options.format == "torchscript":
            # It holds TorchScript code and data, no pickled Python objects.
            return torch.jit.load(path, map_location="cpu").eval()
        module = module_class(run.folder / "module.py", options.module)(**options.module_arguments)
        # weights_only: the class is trusted code, the weights stay data.
        module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        return module.eval()
    except PodError:
        raise
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"{options.source} cannot be loaded as {options.format}",
            expected=f"a whole file that torch {torch.__version__} reads",
            found=f"{path.stat().st_size} bytes, {type(error).__name__}: {' '.join(str(error).split())[:300]}",
            remedy="check conversion.format and the module's arguments, then save the model again",
        ) from error


def module_class(path: Path, name: str) -> Any:
    """Run the file and return its class `name` (`module:Class`). Raises what the file raises."""
    known_as, _, class_name = name.partition(":")
    description = importlib.util.spec_from_file_location(known_as, path)
    if description is None or description.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(description)
    sys.modules[known_as] = module
    description.loader.exec_module(module)
    return getattr(module, class_name)


def columns_of(model: Any, arrays: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of forward's arguments: those without a default, and those that the golden set has."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return tuple(str(name) for name in model.graph_signature.user_inputs)
    if isinstance(model, torch.jit.ScriptModule):
        schema = model.forward.schema.arguments[1:]
        return tuple(entry.name for entry in schema if not entry.has_default_value() or entry.name in arrays)
    parameters = inspect.signature(model.forward).parameters.values()
    wanted = (entry for entry in parameters if entry.kind == entry.POSITIONAL_OR_KEYWORD)
    return tuple(entry.name for entry in wanted if entry.default is entry.empty or entry.name in arrays)


def export(model: Any, kind: str, golden: Mapping[str, Any], outputs: list[str], target: Path) -> None:
    """Write the model as ONNX in one file; the first dimension of inputs and outputs is free."""
    import onnx
    import torch

    # Two rows: an exporter treats a size of one as a constant.
    rows = tuple(torch.from_numpy(array[:2].copy()) for array in golden.values())
    common: dict[str, Any] = {"input_names": list(golden), "output_names": outputs, "opset_version": OPSET}
    if kind == "torchscript":
        axes = {name: {0: "rows"} for name in (*golden, *outputs)}
        torch.onnx.export(model, rows, target, dynamo=False, dynamic_axes=axes, **common)
    else:
        # An exported program's shapes were decided when it was made.
        free = None if kind == "export" else tuple({0: torch.export.Dim("rows")} for _ in rows)
        torch.onnx.export(
            model,
            rows,
            target,
            dynamo=True,
            dynamic_shapes=free,
            external_data=False,
            verbose=False,
            **common,
        )
    made = onnx.load(target)
    # The exporter notes where it ran and from which line each node came: this is not part of the model.
    for node in made.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in made.graph.value_info:
        del value.metadata_props[:]
    del made.graph.metadata_props[:]
    del made.metadata_props[:]
    save(made, target)


def require_free_batch(signature: Signature) -> None:
    """Raise PodError (ModelInvalidError) unless the first dimension of each input is free."""
    fixed = [tensor for tensor in signature.inputs if not tensor.shape or tensor.shape[0] != -1]
    if fixed:
        raise PodError(
            "ModelInvalidError",
            "The model was exported for one number of rows only",
            expected="a first dimension that is free",
            found=", ".join(f"{tensor.name}: {list(tensor.shape or ())}" for tensor in fixed),
            remedy="export it with dynamic_shapes=({0: torch.export.Dim('rows')},)",
        )


def in_batches(forward: Any, golden: GoldenRows, outputs: Sequence[str]) -> dict[str, Any]:
    """Return what forward answers over all golden rows, batch by batch.

    :raises PodError: of kind ModelInvalidError.
    """
    import numpy as np

    rows = golden.rows
    parts: dict[str, list[Any]] = {}
    for start in range(0, rows, BATCH_ROWS):
        batch = golden.take(range(start, min(start + BATCH_ROWS, rows)))
        for name, value in answers_of(forward, batch, outputs).items():
            require_batch(name, value, min(BATCH_ROWS, rows - start))
            parts.setdefault(name, []).append(value)
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def answers_of(forward: Any, rows: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    """Return what forward answers to some rows, by name: the given names, else a dictionary's keys, else `output…`.

    :raises PodError: of kind ModelInvalidError or UserError.
    """
    import torch

    try:
        answer = forward(*(torch.from_numpy(array.copy()) for array in rows.values()))
    except Exception as error:
        raise rows_error("the source model", error) from error
    keys = list(answer) if isinstance(answer, dict) else []
    values = list(answer.values()) if keys else list(answer) if isinstance(answer, tuple | list) else [answer]
    if not all(isinstance(value, torch.Tensor) for value in values):
        found = ", ".join(type(value).__name__ for value in values)
        what = "The source model answers with something else than tensors"
        raise PodError(
            "ModelInvalidError", what, expected="a tensor, or a tuple or dictionary of them", found=found
        )
    default = keys or (
        ["output"] if len(values) == 1 else [f"output_{index}" for index in range(len(values))]
    )
    if outputs and len(outputs) != len(values):
        raise PodError(
            "UserError",
            "conversion.outputs does not name what the model answers",
            expected=f"{len(values)} names",
            found=", ".join(outputs),
        )
    return {str(name): value.numpy() for name, value in zip(outputs or default, values, strict=True)}


def again(run: ConversionRun) -> dict[str, Any]:
    """Make `model.onnx` once more, without the passes that nobody has asked for."""
    return rewrite(run, run.folder / EXPORTED_FILE, plainly=True)


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    return run_onnx_converter(arguments(argv), convert, PACKAGES, by_library=True, plainly=again)


if __name__ == "__main__":
    raise SystemExit(main())
