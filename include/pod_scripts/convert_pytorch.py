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
import difflib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import logging
import math
import multiprocessing
import os
import platform
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxscript", "onnxslim", "torch")
# The lowest that torch's own exporter writes; the exporter for TorchScript knows it too.
OPSET = 18
WHY_TRUST = {
    "export": "torch.export.load unpickles parts of the file and evaluates expressions in it",
    "state_dict": "the file with the module's class is run",
}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = common_parser(precisions=("fp32", "fp16", "int8"))
    parser.set_defaults(packages=PACKAGES)
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
    """An argument such as `package.module:Class`."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", text):
        raise argparse.ArgumentTypeError(f"expected MODULE:CLASS, found {text!r}")
    return text


def json_object(text: str) -> dict[str, Any]:
    """An argument that must be a JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, found {text!r}")
    return value


def names(text: str) -> tuple[str, ...]:
    """An argument of names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def convert(run: Run) -> dict[str, Any]:
    """Makes `model.onnx` and `reference.npz` of the source; returns its part of the result. Raises PodError."""
    options = run.options
    require_trust(options)
    path = run.fetch(options.source, "source.pt2" if options.format == "export" else "source.pt")
    if options.module_file:
        run.fetch(options.module_file, "module.py")
    fetch_calibration(run)
    made = run.tool("convert", lambda: convert_loaded(run, path))
    return {**made, **rewrite(run, run.folder / "exported.onnx")}


def require_trust(options: argparse.Namespace) -> None:
    """Raises PodError (UserError) for a format that runs code, and no word that it is trusted."""
    if options.format in WHY_TRUST and not options.trusted:
        raise PodError(
            "UserError",
            f"{options.source} is not loaded: {WHY_TRUST[options.format]}, which can run any code in this pod, "
            "with its rights on the bucket",
            expected="TorchScript (torch.jit.save), which holds no Python code, or trusted: true",
            found=f"format {options.format}, and no word that it is trusted",
            remedy="save it with torch.jit.trace and torch.jit.save; or, if you know who wrote the files and that "
            "nobody else could, write trusted: true under conversion in the release file",
        )


def convert_loaded(run: Run, path: Path) -> dict[str, Any]:
    """Loads the source, writes `exported.onnx`, and keeps what the source answers by its own forward."""
    # Torch's exporters tell of every library that is not there.
    warnings.simplefilter("ignore")
    import torch

    logging.disable(logging.WARNING)
    model = loaded(run, path)
    arrays = read_arrays(run.folder / "golden.npz", run.options.golden)
    columns = run.options.inputs or columns_of(model, arrays)
    require_columns(run.options.golden, arrays, columns)
    golden = {name: arrays[name] for name in columns}
    forward = model.module() if run.options.format == "export" else model
    with torch.inference_mode():
        sample = answers_of(forward, {name: array[:2] for name, array in golden.items()}, run.options.outputs)
    target = run.folder / "exported.onnx"
    try:
        export(model, run.options.format, golden, list(sample), target)
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            "The model cannot be written as ONNX",
            expected="a module that torch.onnx can export with a free batch dimension",
            found=f"{type(error).__name__}: {first_line(error)}",
            remedy="try torch.onnx.export where the model was trained: it says which part is in the way",
        ) from error
    signature = read_signature(open_session(target, "the exported model", optimise=False))
    require_free_batch(signature)
    golden = read_golden(run.folder / "golden.npz", run.options.golden, signature.inputs)
    with torch.inference_mode():
        keep_reference(run, golden, lambda rows: in_batches(forward, rows, run.options.outputs))
    say("export", f"{run.options.format}, {', '.join(columns)} in, {', '.join(sample)} out")
    return {"source": {"kind": run.options.format, "inputs": list(columns), "outputs": list(sample)}}


def loaded(run: Run, path: Path) -> Any:
    """The model in inference mode, as its format says. Raises PodError (ModelInvalidError)."""
    import torch

    options = run.options
    try:
        if options.format == "export":
            return torch.export.load(path)
        if options.format == "torchscript":
            # Holds a program of its own kind, and data; no pickled Python objects.
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
    """Runs the file and returns its class `name` (`module:Class`). Raises what the file raises."""
    known_as, _, class_name = name.partition(":")
    description = importlib.util.spec_from_file_location(known_as, path)
    if description is None or description.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(description)
    sys.modules[known_as] = module
    description.loader.exec_module(module)
    return getattr(module, class_name)


def columns_of(model: Any, arrays: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of forward's arguments: those without a default, and those that the golden set has."""
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
    """Writes the model as ONNX in one file; the first dimension of inputs and outputs is free."""
    import onnx
    import torch

    # Two rows: an exporter takes a size of one for a constant.
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
    # The exporter notes where it ran and from which line each node came; none of it is the model's.
    for node in made.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in made.graph.value_info:
        del value.metadata_props[:]
    del made.graph.metadata_props[:]
    del made.metadata_props[:]
    save(made, target)


def require_free_batch(signature: Signature) -> None:
    """Raises PodError (ModelInvalidError) unless the first dimension of each input is free."""
    fixed = [tensor for tensor in signature.inputs if not tensor.shape or tensor.shape[0] != -1]
    if fixed:
        raise PodError(
            "ModelInvalidError",
            "The model was exported for one number of rows only",
            expected="a first dimension that is free",
            found=", ".join(f"{tensor.name}: {list(tensor.shape or ())}" for tensor in fixed),
            remedy="export it with dynamic_shapes=({0: torch.export.Dim('rows')},)",
        )


def in_batches(forward: Any, golden: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    """What forward answers over all golden rows, batch by batch. Raises PodError (ModelInvalidError)."""
    import numpy as np

    rows = len(next(iter(golden.values())))
    parts: dict[str, list[Any]] = {}
    for start in range(0, rows, BATCH_ROWS):
        batch = {name: array[start : start + BATCH_ROWS] for name, array in golden.items()}
        for name, value in answers_of(forward, batch, outputs).items():
            require_batch(name, value, min(BATCH_ROWS, rows - start))
            parts.setdefault(name, []).append(value)
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def answers_of(forward: Any, rows: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    """What forward answers to some rows, by name: the given names, else a dictionary's keys, else `output…`.

    Raises PodError (ModelInvalidError, UserError).
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


# ---------------------------------------------------------------- rewriting: the same text in convert_{onnx,pytorch}.py


def precision_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say how a lower precision is reached."""
    add = parser.add_argument
    methods = ["dynamic", "static"]
    add("--quantization", choices=methods, default="dynamic", help="how int8 is reached (%(default)s)")
    add("--calibration", type=s3_url, help="static int8: rows of training data, s3://BUCKET/KEY.npz")
    methods = ["minmax", "entropy", "percentile"]
    add("--calibration-method", choices=methods, default="minmax", help="static int8 (%(default)s)")
    add("--per-channel", action="store_true", help="int8: a scale for each channel of a weight")
    text = "a node to leave as it is; may be repeated"
    add("--keep-fp32", action="append", default=[], metavar="NODE", help=text)


def check_precision(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the program with exit code 2 when the arguments on precision contradict each other."""
    static = options.precision == "int8" and options.quantization == "static"
    if static and options.calibration is None:
        parser.error("--quantization static needs --calibration: scales are taken from real rows")
    if options.calibration is not None and not static:
        parser.error("--calibration is only for --precision int8 --quantization static")


def fetch_calibration(run: Run) -> None:
    """Downloads the calibration rows, if there are any. Raises PodError."""
    if run.options.calibration is not None:
        run.fetch(run.options.calibration, "calibration.npz")


def rewrite(run: Run, path: Path) -> dict[str, Any]:
    """Makes `model.onnx` of a checked model: simplified, optimised, in the wanted precision. Raises PodError.

    A simplifier or optimiser that fails is left out and says why: the model is no worse for it, and half of
    the time that is left stays for what follows. The precision was asked for: it is reached, or the run fails.
    """
    passes: list[dict[str, Any]] = []
    for name, act in (("simplify", simplify), ("optimise", optimise)):
        target = run.folder / f"{name}.onnx"
        try:
            counts = run.tool(name, partial(apply, act, run, path, target, name), share_of_time=0.5)
        except PodError as error:  # a rewriter may fail in any way; the model stays as it was
            reason = f"{error.what}: {error.found}"
            say(name, f"left out: {reason}")
            passes.append({"name": name, "outcome": "left out", "reason": reason})
            continue
        passes.append({"name": name, "outcome": "applied", **counts})
        path = target
    if run.options.precision != "fp32":
        half = run.options.precision == "fp16"
        name, act = ("fp16", to_fp16) if half else (f"int8 {run.options.quantization}", to_int8)
        target = run.folder / "precise.onnx"
        counts = run.tool(name, partial(apply, act, run, path, target, name))
        passes.append({"name": name, "outcome": "applied", **counts})
        path = target
    path.replace(run.folder / "model.onnx")
    return {"passes": passes}


def apply(
    act: Callable[[Run, Path, Path], None], run: Run, source: Path, target: Path, name: str
) -> dict[str, Any]:
    """One pass from file to file, with its result checked. Raises PodError."""
    before = load_checked(source, f"the model before {name}")
    signature = read_signature(open_session(source, f"the model before {name}", optimise=False))
    try:
        act(run, source, target)
    except PodError:
        raise
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"The model cannot be brought through {name}",
            found=f"{type(error).__name__}: {first_line(error)}",
            remedy="choose another precision, or name the nodes to leave alone in conversion.keep_fp32",
        ) from error
    after = load_checked(target, f"the model after {name}")
    session = open_session(target, f"the model after {name}", optimise=False)
    require_same_signature(name, signature, read_signature(session))
    say(name, f"{len(before.graph.node)} nodes before, {len(after.graph.node)} after")
    return {"nodes_before": len(before.graph.node), "nodes_after": len(after.graph.node)}


def require_same_signature(name: str, before: Signature, after: Signature) -> None:
    """Raises PodError when a pass changed a name, a datatype or a shape that was fixed."""

    def alike(a: Tensor, b: Tensor) -> bool:
        if (a.name, a.datatype) != (b.name, b.datatype):
            return False
        pairs = zip(a.shape, b.shape, strict=False)
        same_rank = len(a.shape) == len(b.shape) or not (a.shape and b.shape)
        return same_rank and all(x == y or -1 in (x, y) for x, y in pairs)

    same_inputs = [tensor.shape for tensor in before.inputs] == [tensor.shape for tensor in after.inputs]
    pairs = [(before.inputs, after.inputs), (before.outputs, after.outputs)]
    if same_inputs and all(len(old) == len(new) and all(map(alike, old, new)) for old, new in pairs):
        return
    what = f"{name} changed what the model takes or answers"
    raise PodError("ModelInvalidError", what, expected=str(asdict(before)), found=str(asdict(after)))


def simplify(_: Run, source: Path, target: Path) -> None:
    """Folds constants and removes what does nothing."""
    import onnx

    save(importlib.import_module("onnxslim").slim(onnx.load(source)), target)


def optimise(_: Run, source: Path, target: Path) -> None:
    """ONNX Runtime's basic level: rewrites that hold on any hardware.

    The higher levels fuse nodes for the processor at hand; the server does that itself when it loads a model.
    """
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    model, before = onnx.load(target), onnx.load(source)
    foreign = used_domains(model.graph) - used_domains(before.graph)
    if foreign:
        names = ", ".join(sorted(foreign))
        raise ValueError(f"it brought in operators of {names}, which other runtimes lack")
    keep_opset_imports(model, {entry.domain for entry in before.opset_import})
    save(model, target)


def to_fp16(run: Run, source: Path, target: Path) -> None:
    """Weights and sums in half precision; inputs and outputs stay as they are, so that clients need not change."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    kept = run.options.keep_fp32
    model = convert_float_to_float16(onnx.load(source), keep_io_types=True, node_block_list=kept)
    # It puts the casts of the inputs after the nodes that read them.
    OnnxModel(model).topological_sort(is_deterministic=True)
    save(model, target)


def to_int8(run: Run, source: Path, target: Path) -> None:
    """Weights in eight bits; activations too, with scales of each batch (dynamic) or of calibration rows (static)."""
    import onnx
    from onnxruntime import quantization as quant

    options = run.options
    shaped, made = run.folder / "shaped.onnx", run.folder / "quantised.onnx"
    quant.quant_pre_process(source, shaped, skip_optimization=True, skip_symbolic_shape=True)
    common: dict[str, Any] = {"per_channel": options.per_channel, "nodes_to_exclude": options.keep_fp32}
    if options.quantization == "dynamic":
        quant.quantize_dynamic(shaped, made, weight_type=quant.QuantType.QInt8, **common)
    else:
        methods = quant.CalibrationMethod
        quant.quantize_static(
            shaped,
            made,
            calibration_rows(run, source),
            quant_format=quant.QuantFormat.QDQ,
            calibrate_method={
                "minmax": methods.MinMax,
                "entropy": methods.Entropy,
                "percentile": methods.Percentile,
            }[options.calibration_method],
            **common,
        )
    model = onnx.load(made)
    keep_opset_imports(model, used_domains(model.graph) | {""})
    if not any("Integer" in node.op_type or "Quantize" in node.op_type for node in model.graph.node):
        raise ValueError("it left every node as it was: the model has none that this quantiser knows")
    save(model, target)


def calibration_rows(run: Run, source: Path) -> Any:
    """The calibration set as ONNX Runtime reads it, batch by batch. Raises PodError (GoldenSetError)."""
    from onnxruntime.quantization import CalibrationDataReader

    signature = read_signature(open_session(source, "the model before int8", optimise=False))
    arrays = read_golden(run.folder / "calibration.npz", run.options.calibration, signature.inputs)
    size, rows = fixed_batch(signature) or BATCH_ROWS, len(next(iter(arrays.values())))
    # A model that fixes its batch takes whole batches only.
    last = rows - rows % size if fixed_batch(signature) else rows
    batches = (
        {column: as_fed(array[start : start + size]) for column, array in arrays.items()}
        for start in range(0, last, size)
    )

    class Rows(CalibrationDataReader):
        def get_next(self) -> dict[str, Any] | None:
            return next(batches, None)

    return Rows()


def used_domains(graph: Any) -> set[str]:
    """The operator domains that a graph uses, its inner graphs included; ONNX's own is the empty string."""
    found = set()
    for node in graph.node:
        found.add("" if node.domain == "ai.onnx" else node.domain)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= used_domains(inner)
    return found


def keep_opset_imports(model: Any, domains: set[str]) -> None:
    """ONNX Runtime's tools list domains that no node uses: only `domains` are kept, and known elsewhere."""
    kept = [entry for entry in model.opset_import if entry.domain in domains]
    del model.opset_import[:]
    model.opset_import.extend(kept)


# ---------------------------------------------------------------- common: the same text in every convert_*.py
#
# Each program is one file, so that an image needs nothing else of this repository. What follows is therefore
# repeated; tests/unit/pod_scripts/test_shared_text.py holds the copies alike.

# Every other kind of error is a bad input: 3.
EXIT_CODES = {"ParityRefusedError": 4, "StoreUnavailableError": 75, "TimedOutError": 75, "SlipwayError": 1}
# Triton's word for each element type that ONNX Runtime names, and NumPy's where that is not the same.
DATATYPES = {"float": "FP32", "float16": "FP16", "bfloat16": "BF16", "double": "FP64", "string": "BYTES"}
DATATYPES |= {name: name.upper() for name in ("bool", "int8", "int16", "int32", "int64")}
DATATYPES |= {name: name.upper() for name in ("uint8", "uint16", "uint32", "uint64")}
NUMPY_NAMES = {"FP16": "float16", "FP32": "float32", "FP64": "float64", "BYTES": "str"}
BATCH_ROWS = 64
WORST_ROWS = 5
LATENCY_RUNS = 200
LATENCY_LIMIT_S = 2.0
OUT_OF_MEMORY = re.compile(r"(?i)MemoryError|bad.alloc|failed to allocate|can(no|')t allocate memory")
MORE_MEMORY = "raise conversion.resources.memory in the release file, or export a smaller model"


@dataclass(eq=False)
class PodError(Exception):
    """Why this run did not pass, in the words of the project's error tree.

    Kind and text are given by place, the rest by name: so an error can travel between processes.
    """

    kind: str
    what: str
    expected: str | None = None
    found: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        details = [("Expected", self.expected), ("Found", self.found), ("Remedy", self.remedy)]
        sentences = [self.what, *(f"{label}: {text}" for label, text in details if text)]
        return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences)

    @property
    def exit_code(self) -> int:
        """What the program ends with."""
        return EXIT_CODES.get(self.kind, 3)


def unexpected(error: BaseException) -> PodError:
    """The error for what this program did not foresee; the log gets the traceback."""
    traceback.print_exception(error)
    what, remedy = "The converter failed in a way it does not know", "report it, with the pod's log"
    found = f"{type(error).__name__}: {first_line(error)}"
    return PodError("SlipwayError", what, found=found, remedy=remedy)


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def say(phase: str, text: str) -> None:
    """One line of progress."""
    print(f"{phase}: {text}", flush=True)


# -------- S3


def s3_client() -> Any:
    """S3, by the standard AWS_* environment."""
    import boto3
    from botocore.config import Config

    retries: Any = {"mode": "standard", "total_max_attempts": 4}
    return boto3.client("s3", config=Config(connect_timeout=5, read_timeout=60, retries=retries))


@contextmanager
def store_errors(url: str) -> Iterator[tuple[str, str]]:
    """Gives bucket and key; makes a PodError of what boto3 raises: missing, forbidden, or what may pass."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield split_url(url)
    except (BotoCoreError, Boto3Error, ClientError, OSError) as error:
        # The error of an upload hides the one that tells.
        causes = [error, error.__cause__, error.__context__]
        answer: Any = next((cause.response for cause in causes if isinstance(cause, ClientError)), {})
        code = answer.get("Error", {}).get("Code", type(error).__name__)
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in ("NoSuchKey", "NoSuchBucket") or status == 404:
            kind, what = "InputMissingError", f"There is no {url}"
            remedy = "put the object there, or correct the address in the release file"
        elif status in (401, 403) or isinstance(error, NoCredentialsError):
            kind, what = "UserError", f"S3 gives no access to {url}"
            remedy = "give the pod's service account a role that may read and write the bucket"
        else:
            kind, what = "StoreUnavailableError", f"S3 {'fails' if status else 'does not answer'} for {url}"
            remedy = "check AWS_ENDPOINT_URL, the network and the store, then run the task again"
        found = f"{code}, HTTP {status}" if status else code
        raise PodError(kind, what, found=found, remedy=remedy) from error


def split_url(url: str) -> tuple[str, str]:
    """`s3://bucket/a/b` → (`bucket`, `a/b`)."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


# -------- the command line


@dataclass(frozen=True)
class Rule:
    """What an output is held to; one `measure` decides, the others are only reported.

    tolerance: at least `within_min` of the rows have |source - converted| <= abs + rel * |source| in every
    element. cosine: each row's vector has a cosine similarity of at least `cosine_min` with the source's.
    top_k: in at least `agreement_min` of the rows the `top_k` best classes are the source's. Outputs that are
    no vectors of fractions (labels, text, one number a row) are held to equality or to the tolerance.
    """

    measure: str = "tolerance"
    abs_tolerance: float = 1e-4
    rel_tolerance: float = 1e-3
    within_min: float = 1.0
    cosine_min: float = 0.999
    top_k: int = 1
    agreement_min: float = 0.99


def s3_url(text: str) -> str:
    """An argument that must be an S3 address with a key, returned without a trailing slash."""
    if not text.startswith("s3://") or not all(split_url(text)):
        raise argparse.ArgumentTypeError(f"expected s3://BUCKET/KEY, found {text!r}")
    return text.rstrip("/")


def number(kind: Callable[[str], float], least: float, most: float = math.inf) -> Callable[[str], Any]:
    """The type of an argument that must be a finite number from `least` to `most`."""

    def read(text: str) -> float:
        value = kind(text)
        if not (math.isfinite(value) and least <= value <= most):
            raise argparse.ArgumentTypeError(f"expected a number from {least:g} to {most:g}, found {text!r}")
        return value

    return read


MEASURES = ("tolerance", "cosine", "top_k")
RULE_TYPES: dict[str, Callable[[str], Any]] = {
    "abs_tolerance": number(float, 0),
    "rel_tolerance": number(float, 0),
    "within_min": number(float, 0, 1),
    "cosine_min": number(float, 0, 1),
    "top_k": number(int, 1),
    "agreement_min": number(float, 0, 1),
}


def output_rule(text: str) -> dict[str, Any]:
    """An argument such as `{"output": "label", "measure": "top_k", "agreement_min": 0.99}`."""
    try:
        given = json.loads(text)
        checked = {key: RULE_TYPES[key](str(given[key])) for key in given.keys() & RULE_TYPES}
        known = given.keys() <= {"output", "measure", *RULE_TYPES} and isinstance(given["output"], str)
        if not known or given.get("measure", MEASURES[0]) not in MEASURES:
            raise ValueError(text)
    except (ValueError, AttributeError, KeyError) as error:
        keys = f"measure ({', '.join(MEASURES)}), {', '.join(RULE_TYPES)}"
        raise argparse.ArgumentTypeError(f"expected a JSON object with output and any of {keys}") from error
    return {**given, **checked}


def common_parser(precisions: Sequence[str] = ("fp32",)) -> argparse.ArgumentParser:
    """The arguments that every converter has."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    add, default = parser.add_argument, Rule()
    add("--source", required=True, type=s3_url, help="the trained model, s3://BUCKET/KEY")
    add("--golden", required=True, type=s3_url, help="the golden set, s3://BUCKET/KEY.npz")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    add("--precision", choices=precisions, default="fp32", help="of the converted model (%(default)s)")
    add("--parity-measure", choices=MEASURES, default=default.measure, help="what decides (%(default)s)")
    for key, kind in RULE_TYPES.items():
        name = f"--{key.replace('_', '-')}"
        add(name, type=kind, default=getattr(default, key), metavar="N", help="of the measure (%(default)s)")
    text = 'another rule for one output: {"output": NAME, "measure": …, "cosine_min": …}; may be repeated'
    add("--output-parity", action="append", type=output_rule, default=[], metavar="JSON", help=text)
    text = "limit for all tools together, in seconds (%(default)s)"
    add("--timeout-s", type=number(float, 0.001), default=600.0, metavar="N", help=text)
    text = "limit for each tool's own memory, in MiB (%(default)s)"
    add("--memory-mib", type=number(int, 1), default=1792, metavar="N", help=text)
    return parser


def rule_for(output: str, options: argparse.Namespace) -> Rule:
    """What an output is held to: the release's rule, with what is said of this output alone."""
    rule = {key: getattr(options, key) for key in RULE_TYPES} | {"measure": options.parity_measure}
    for given in options.output_parity:
        if given["output"] == output:
            rule |= {key: value for key, value in given.items() if key != "output"}
    return Rule(**rule)


# -------- tools, each in a process of its own with limits


@dataclass
class Run:
    """One run: what was asked, the folder it works in, and how many seconds its tools may still take."""

    options: argparse.Namespace
    client: Any
    folder: Path
    left_s: float

    def fetch(self, url: str, name: str) -> Path:
        """Downloads an object to a file of this name in the folder. Raises PodError."""
        target = self.folder / name
        with store_errors(url) as (bucket, key):
            self.client.download_file(bucket, key, str(target))
        say("fetch", f"{url}, {target.stat().st_size} bytes")
        return target

    def put(self, path: Path) -> None:
        """Uploads a file under the destination, by its own name. Raises PodError."""
        url = f"{self.options.destination}/{path.name}"
        with store_errors(url) as (bucket, key):
            self.client.upload_file(str(path), bucket, key)
        say("put", f"{url}, {path.stat().st_size} bytes")

    def tool(self, name: str, act: Callable[[], Any], share_of_time: float = 1.0) -> Any:
        """What `act` returns, run in a child process: one that hangs, eats memory or crashes ends there.

        It may use `share_of_time` of the time that is left, and `--memory-mib` of memory. Raises PodError.
        """
        limit_s, started = self.left_s * share_of_time, time.monotonic()
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=answer_over, args=(act, theirs, name, self.options.memory_mib))
        child.start()
        theirs.close()
        try:
            if not ours.poll(limit_s):
                what = f"The tool {name!r} did not finish in time"
                limit = f"an end within {limit_s:.3g} s (all tools: {self.options.timeout_s:g} s)"
                remedy = "raise conversion.timeout_s in the release file, or give the pod more CPU"
                raise PodError("TimedOutError", what, expected=limit, found="still at work", remedy=remedy)
            answer = ours.recv()
        except EOFError:
            child.join()
            what = f"The tool {name!r} crashed on this model"
            found = f"exit code {child.exitcode} (-6 and -9: most often out of memory)"
            raise PodError("ModelInvalidError", what, found=found, remedy=MORE_MEMORY) from None
        finally:
            child.kill()
            child.join()
            ours.close()
            self.left_s = max(0.0, self.left_s - (time.monotonic() - started))
        if isinstance(answer, PodError):
            raise answer
        return answer


def answer_over(act: Callable[[], Any], pipe: Connection, name: str, memory_mib: int) -> None:
    """In the child: sends what `act` returns, or the PodError that says why it did not."""
    # Private writable memory. RLIMIT_AS would count what is merely mapped: a gigabyte and more of shared
    # libraries with PyTorch, which costs nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mib * 2**20, memory_mib * 2**20))
    try:
        answer = act()
    except Exception as error:  # the parent reports it
        # Libraries hide the refusal in errors of their own.
        if OUT_OF_MEMORY.search("".join(traceback.format_exception(error))):
            what = f"The tool {name!r} wanted more memory than it may have"
            answer = PodError("UserError", what, expected=f"at most {memory_mib} MiB", remedy=MORE_MEMORY)
        else:
            answer = error if isinstance(error, PodError) else unexpected(error)
    pipe.send(answer)


# -------- ONNX


@dataclass(frozen=True)
class Tensor:
    """One input or output. A dimension that is not fixed is -1; `shape` is empty when the rank is unknown."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """What a model takes and answers."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def load_checked(path: Path, name: str) -> Any:
    """Reads a model and has ONNX check it in full, shapes included. Raises PodError (ModelInvalidError)."""
    import onnx

    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        if not model.graph.node:
            raise ValueError("a graph without nodes")
    except Exception as error:
        what, found = f"{name} is not a valid ONNX model", f"{path.stat().st_size} bytes, {first_line(error)}"
        remedy = "export the model again as one ONNX file, run onnx.checker over it, and upload it whole"
        raise PodError("ModelInvalidError", what, found=found, remedy=remedy) from error
    return model


def save(model: Any, path: Path) -> None:
    """Writes a model so that equal models are equal bytes."""
    path.write_bytes(model.SerializeToString(deterministic=True))


def open_session(path: Path, name: str, *, optimise: bool) -> Any:
    """An ONNX Runtime session on the CPU: as the server would run it, or with every optimisation off."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        what = f"{name} cannot be loaded by ONNX Runtime {onnxruntime.__version__}"
        remedy = "export it with operators and an opset that this version knows"
        raise PodError("ModelInvalidError", what, found=first_line(error), remedy=remedy) from error


def read_signature(session: Any) -> Signature:
    """Names, Triton datatypes and shapes. Raises PodError (ModelInvalidError) for what is no plain tensor."""

    def tensor(argument: Any) -> Tensor:
        datatype = DATATYPES.get(argument.type.removeprefix("tensor(").removesuffix(")"))
        if datatype is None:
            what = f"The model's {argument.name!r} is not a tensor that Triton can carry"
            remedy = "export the model with plain tensors (for scikit-learn: options={'zipmap': False})"
            raise PodError("ModelInvalidError", what, found=argument.type, remedy=remedy)
        sizes = (size if isinstance(size, int) and size >= 0 else -1 for size in argument.shape)
        return Tensor(argument.name, datatype, tuple(sizes))

    return Signature(tuple(map(tensor, session.get_inputs())), tuple(map(tensor, session.get_outputs())))


def fixed_batch(signature: Signature) -> int:
    """How many rows a model wants at a time, 0 when it takes any number."""
    return next((tensor.shape[0] for tensor in signature.inputs if tensor.shape and tensor.shape[0] > 0), 0)


# -------- the golden set


def read_arrays(path: Path, name: str) -> dict[str, Any]:
    """The arrays of a NumPy archive by name. Raises PodError (GoldenSetError)."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        what = f"{name} is no NumPy .npz archive without pickled objects"
        found = f"{path.stat().st_size} bytes, {first_line(error)}"
        remedy = "write it with numpy.savez(path, INPUT=…, LABEL=…) from arrays of numbers or strings"
        raise PodError("GoldenSetError", what, found=found, remedy=remedy) from error


def read_golden(path: Path, name: str, inputs: tuple[Tensor, ...]) -> dict[str, Any]:
    """The golden set's array for each input, first dimension rows. Raises PodError (GoldenSetError)."""
    arrays = read_arrays(path, name)
    require_columns(name, arrays, [tensor.name for tensor in inputs])
    for tensor in inputs:
        require_column_fits(name, arrays[tensor.name], tensor)
    rows = {tensor.name: len(arrays[tensor.name]) for tensor in inputs}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        what = f"{name} has no rows, or not the same number in each column"
        found = ", ".join(f"{column}: {count}" for column, count in rows.items())
        remedy = "write the golden set again from whole rows"
        raise PodError("GoldenSetError", what, found=found, remedy=remedy)
    return {tensor.name: arrays[tensor.name] for tensor in inputs}


def require_columns(name: str, arrays: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Raises PodError (GoldenSetError) unless there is an array for each column."""
    missing = [column for column in columns if column not in arrays]
    if not missing:
        return
    near = {column: difflib.get_close_matches(column, list(arrays), n=1) for column in missing}
    hints = [f"; {match[0]!r} looks like {column!r}" for column, match in near.items() if match]
    what = f"{name} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    expected, found = f"one array for each of {', '.join(columns)}", ", ".join(sorted(arrays)) or "no array"
    remedy = f"name the arrays after the model's inputs{''.join(hints)}"
    raise PodError("GoldenSetError", what, expected=expected, found=found, remedy=remedy)


def require_column_fits(name: str, array: Any, tensor: Tensor) -> None:
    """Raises PodError (GoldenSetError) unless type and shape are the input's."""
    wanted = NUMPY_NAMES.get(tensor.datatype, tensor.datatype.lower())
    fits = array.dtype.kind in "US" if wanted == "str" else array.dtype.name == wanted
    shape = tensor.shape or (-1, *array.shape[1:])
    # The first dimension is the batch: a model that fixes it is fed that many rows at a time.
    pairs = zip(shape[1:], array.shape[1:], strict=False)
    if fits and array.ndim == len(shape) and all(size in (-1, actual) for size, actual in pairs):
        return
    what = f"Column {tensor.name!r} of {name} does not fit the model's input"
    expected = f"{wanted} of shape {['rows', *shape[1:]]} (-1: any size)"
    found = f"{array.dtype.name} of shape {list(array.shape)}"
    raise PodError("GoldenSetError", what, expected=expected, found=found)


# -------- answers


def answer_all(session: Any, signature: Signature, golden: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The model's outputs over all golden rows, batch by batch. Raises PodError (ModelInvalidError)."""
    import numpy as np

    rows = len(next(iter(golden.values())))
    fixed = fixed_batch(signature)
    size = fixed or min(BATCH_ROWS, rows)
    names = [tensor.name for tensor in signature.outputs]
    parts: dict[str, list[Any]] = {output: [] for output in names}
    for start in range(0, rows, size):
        # The last batch is filled up with its last row where the model fixes the batch size.
        wanted = min(size, rows - start)
        taken = np.minimum(np.arange(start, start + (size if fixed else wanted)), rows - 1)
        feeds = {column: as_fed(array[taken]) for column, array in golden.items()}
        try:
            values = session.run(names, feeds)
        except Exception as error:
            raise rows_error(f"{name}, golden rows from {start}", error) from error
        for output, value in zip(names, values, strict=True):
            require_batch(output, value, len(taken))
            parts[output].append(value[:wanted])
    return {output: np.concatenate(arrays) for output, arrays in parts.items()}


def as_fed(array: Any) -> Any:
    """Strings go to ONNX Runtime as objects; numbers as they are."""
    return array.astype(str).astype(object) if array.dtype.kind in "SU" else array


def rows_error(where: str, error: Exception) -> PodError:
    """The error for a model that fails on golden rows."""
    what = f"The model fails on the golden set ({where})"
    remedy = "correct the model, or the golden set if those rows are not valid inputs"
    return PodError("ModelInvalidError", what, found=first_line(error), remedy=remedy)


def require_batch(output: str, value: Any, rows: int) -> None:
    """Raises PodError (ModelInvalidError) unless an output has one row for each input row."""
    shape = getattr(value, "shape", ())
    if shape[:1] != (rows,):
        what = f"Output {output!r} does not have one row for each of {rows} input rows"
        remedy = "export the model with the batch as the first dimension of every input and output"
        raise PodError("ModelInvalidError", what, found=f"shape {list(shape)}", remedy=remedy)


def keep_reference(run: Run, golden: Mapping[str, Any], answer: Callable[[Mapping[str, Any]], Any]) -> None:
    """Writes what the source model answers to the golden set: its own runtime is the reference.

    Raises PodError (ModelInvalidError) when it does not give the same answers again. That is asked of every
    model: two sessions draw the same random numbers, so parity alone does not show it.
    """
    import numpy as np

    answers = answer(golden)
    again = answer({column: array[:BATCH_ROWS] for column, array in golden.items()})
    rule = Rule(abs_tolerance=run.options.abs_tolerance, rel_tolerance=run.options.rel_tolerance)
    for output, values in answers.items():
        entry = compare_output(output, values[:BATCH_ROWS], again[output], rule)
        if not entry["pass"]:
            what = "The source model answers the same rows differently from run to run"
            found = f"{output} differs by up to {entry['max_abs_diff']}"
            remedy = "export the model in inference mode, without random operators (dropout, sampling)"
            raise PodError("ModelInvalidError", what, found=found, remedy=remedy)
    # Text is kept as fixed-width strings: an archive of objects would be a pickle.
    text = {name: values.astype(str) for name, values in answers.items() if values.dtype == object}
    np.savez(run.folder / "reference.npz", **answers | text)


# -------- parity


def compare_output(name: str, source: Any, converted: Any, rule: Rule) -> dict[str, Any]:
    """The entry of one output in the parity table. NaN against a number counts as endlessly far."""
    import numpy as np

    rows = len(source)
    entry: dict[str, Any] = {"output": name, "rows": rows, "measure": rule.measure}
    if source.shape != converted.shape:
        shapes = {"source": f"shape {list(source.shape)}", "converted": f"shape {list(converted.shape)}"}
        entry |= {"max_abs_diff": None, "max_rel_diff": None, "within_share": 0.0, "least_share": 1.0}
        return entry | {"mismatched_rows": rows, "pass": False, "worst": [{"row": 0, **shapes}]}
    a, b = source.reshape(rows, -1), converted.reshape(rows, -1)
    difference, relative, outside = distances(a, b, rule)
    off, least = {"tolerance": outside.any(axis=1)}, {"tolerance": rule.within_min}
    entry |= {"max_abs_diff": plain(difference.max(initial=0.0))}
    entry |= {"max_rel_diff": plain(relative.max(initial=0.0))}
    entry |= {"within_share": float(1 - off["tolerance"].mean())}
    if a.dtype.kind != "f":
        off["top_k"], least["top_k"] = off["tolerance"], rule.agreement_min
    elif a.shape[1] > 1:
        cosines, first, best = cosine_of_rows(a, b), agrees_in_best(a, b, 1), agrees_in_best(a, b, rule.top_k)
        off |= {"cosine": ~(cosines >= rule.cosine_min), "top_k": ~best}
        least |= {"cosine": 1.0, "top_k": rule.agreement_min}
        entry |= {"cosine_min": plain(cosines.min()), "top_1_agreement": float(first.mean())}
        entry |= {"top_k": rule.top_k, "top_k_agreement": float(best.mean())}
    measure = rule.measure if rule.measure in off else "tolerance"
    wrong, share = off[measure], least[measure]
    entry |= {"measure": measure, "least_share": share, "pass": bool(1 - wrong.mean() >= share)}
    worst = worst_rows(a, b, wrong, np.nan_to_num(difference, nan=np.inf)) if wrong.any() else []
    return entry | {"mismatched_rows": int(wrong.sum()), "worst": worst}


def distances(a: Any, b: Any, rule: Rule) -> tuple[Any, Any, Any]:
    """Absolute and relative difference of each element, and whether it is too large; each (rows, elements).

    The relative one is against |source|, or the absolute tolerance where |source| is smaller. Whole numbers,
    truth values and strings must be equal.
    """
    import numpy as np

    if a.dtype.kind != "f":
        off = a.astype(str) != b.astype(str) if a.dtype.kind in "OSU" else a != b
        return off.astype(np.float64), off.astype(np.float64), off
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    # Equal infinities and two NaNs are alike; their difference would not be a number.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = np.maximum(np.abs(a), max(rule.abs_tolerance, float(np.finfo(np.float32).tiny)))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
        relative = np.where(same, 0.0, difference / scale)
        near = difference <= rule.abs_tolerance + rule.rel_tolerance * np.abs(a)
    return difference, relative, ~(same | (near & np.isfinite(difference)))


def cosine_of_rows(a: Any, b: Any) -> Any:
    """The cosine similarity of each pair of rows; 1 for equal rows, also for those of zeros."""
    import numpy as np

    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (a * b).sum(axis=1) / lengths
    return np.where((a == b).all(axis=1), 1.0, np.where(lengths > 0, cosines, 0.0))


def agrees_in_best(a: Any, b: Any, k: int) -> Any:
    """Whether each of the converted model's `k` best classes is, by the source, among its `k` best; per row.

    Classes that tie in the source may stand for each other.
    """
    import numpy as np

    k = min(k, a.shape[1])
    threshold = np.sort(a, axis=1)[:, -k]
    chosen = np.argsort(-b, axis=1, kind="stable")[:, :k]
    best = (np.take_along_axis(a, chosen, axis=1) >= threshold[:, None]).all(axis=1)
    return best & np.isfinite(b).all(axis=1)


def worst_rows(a: Any, b: Any, off: Any, badness: Any) -> list[dict[str, Any]]:
    """The rows most off among those that are, each with its element that is most off."""
    import numpy as np

    order = np.argsort(-np.where(off, badness.max(axis=1), -1.0), kind="stable")[:WORST_ROWS]
    worst: list[dict[str, Any]] = []
    for row in (int(row) for row in order if off[row]):
        index = int(np.argmax(badness[row]))
        values = {"source": plain(a[row, index]), "converted": plain(b[row, index])}
        worst.append({"row": row, "index": index, **values})
        if a.dtype.kind == "f" and a.shape[1] > 1:
            worst[-1] |= {"source_best": int(a[row].argmax()), "converted_best": int(b[row].argmax())}
    return worst


def plain(value: Any) -> Any:
    """A NumPy scalar as JSON can hold it: not-a-number and infinities become strings."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def require_parity(parity: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Raises PodError (ParityRefusedError), which names the worst rows, unless every output passes."""
    failed = [entry for entry in parity if not entry["pass"]]
    if not failed:
        return
    wanted = {
        "tolerance": "a difference of at most {0.abs_tolerance:g} + {0.rel_tolerance:g} × |source|",
        "cosine": "a cosine similarity of at least {0.cosine_min:g}",
        "top_k": "the same best {0.top_k}",
    }
    expected, found = [], []
    for entry in failed:
        output, worst = entry["output"], entry["worst"][:3]
        limit = wanted[entry["measure"]].format(rule_for(output, options))
        expected.append(f"{output}: {limit} in {100 * entry['least_share']:g} % of the rows")
        counts = f"{entry['mismatched_rows']} of {entry['rows']} rows off, by up to {entry['max_abs_diff']}"
        rows = (f"row {row['row']}: expected {row['source']}, found {row['converted']}" for row in worst)
        found.append(f"{output}: {counts} ({'; '.join(rows)})")
    what = "The converted model does not answer as its source does"
    remedy = "look at the worst rows; use a higher precision, or widen conversion.parity if it is harmless"
    texts = {"expected": "; ".join(expected), "found": "; ".join(found)}
    raise PodError("ParityRefusedError", what, **texts, remedy=remedy)


# -------- what is said of the converted model


def examine(run: Run) -> dict[str, Any]:
    """Holds `model.onnx` against the reference, over the golden set: signature, parity table, latency."""
    path, name, options = run.folder / "model.onnx", "the converted model", run.options
    load_checked(path, name)
    session = open_session(path, name, optimise=True)
    signature = read_signature(session)
    golden = read_golden(run.folder / "golden.npz", options.golden, signature.inputs)
    reference = read_arrays(run.folder / "reference.npz", "the reference")
    answers = answer_all(session, signature, golden, name)
    unknown = {given["output"] for given in options.output_parity} - set(reference)
    if unknown:
        what = f"conversion.parity.outputs names what the model does not answer: {', '.join(sorted(unknown))}"
        raise PodError("UserError", what, expected=f"some of {', '.join(reference)}")
    # A rank that the model does not state is seen in what it answers.
    shapes = {output: tensor.shape for output, tensor in answers.items()}
    outputs = (
        tensor if tensor.shape else replace(tensor, shape=(-1, *shapes[tensor.name][1:]))
        for tensor in signature.outputs
    )
    return {
        "signature": asdict(replace(signature, outputs=tuple(outputs))),
        "parity": [
            compare_output(output, reference[output], answers[output], rule_for(output, options))
            for output in reference
        ],
        "latency": measure_latency(session, signature, golden),
    }


def measure_latency(session: Any, signature: Signature, golden: Mapping[str, Any]) -> dict[str, Any]:
    """How long the converted model takes for one golden row after the other, by ONNX Runtime in this pod."""
    rows, size = len(next(iter(golden.values()))), fixed_batch(signature) or 1
    taken_ms: list[float] = []
    ends_at = time.monotonic() + LATENCY_LIMIT_S
    # The first one warms up, and does not count.
    for turn in range(-1, LATENCY_RUNS):
        feeds = {column: as_fed(array[[turn % rows] * size]) for column, array in golden.items()}
        started = time.perf_counter()
        session.run(None, feeds)
        if turn >= 0:
            taken_ms.append(1000 * (time.perf_counter() - started))
        if taken_ms and time.monotonic() > ends_at:
            break
    taken_ms.sort()
    p50, p99 = (taken_ms[math.ceil(share * len(taken_ms)) - 1] for share in (0.5, 0.99))
    what = "in process, on the conversion pod's CPU: to compare variants, no benchmark of a server"
    figures = {"batch_size": size, "runs": len(taken_ms), "p50_ms": round(p50, 4), "p99_ms": round(p99, 4)}
    return {"what": what, **figures}


def described(path: Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file that was made."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": path.name, "size_bytes": path.stat().st_size, "sha256": digest}


def software_list() -> dict[str, Any]:
    """The Python packages of this image as a CycloneDX 1.6 document, sorted by name."""
    components: dict[str, Any] = {}
    for package in importlib.metadata.distributions():
        name, version = package.metadata["Name"], package.version
        purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version.replace('+', '%2B')}"
        about = {"name": name, "version": version, "purl": purl}
        components[purl] = {"type": "library", "bom-ref": purl, **about}
    program = {"type": "application", "name": Path(__file__).name}
    listed = [components[purl] for purl in sorted(components)]
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return {**head, "metadata": {"component": program}, "components": listed}


# -------- the run


def work(run: Run, result: dict[str, Any]) -> None:
    """Downloads, converts, compares, uploads the model; fills in `result` on the way. Raises PodError."""
    options, model = run.options, run.folder / "model.onnx"
    # A result of an earlier attempt must never be taken for this one's.
    with store_errors(f"{options.destination}/result.json") as (bucket, key):
        run.client.delete_object(Bucket=bucket, Key=key)
    run.fetch(options.golden, "golden.npz")
    result.update(convert(run))
    result.update(run.tool("compare", lambda: examine(run)))
    result["model"] = described(model)
    require_parity(result["parity"], options)
    say("parity", f"{result['parity'][0]['rows']} rows alike in {len(result['parity'])} outputs")
    run.put(model)


def report(run: Run, result: dict[str, Any], failure: PodError | None, seconds: float) -> PodError | None:
    """Uploads the list of software and, last, the result; returns why the run failed, if it did."""
    options, listed, told = run.options, run.folder / "sbom.json", run.folder / "result.json"
    listed.write_text(json.dumps(software_list(), indent=1, sort_keys=True))
    stored = [result["model"]] if failure is None else []
    python = {"python": platform.python_version()}
    head = {
        "outcome": "pass" if failure is None else "refused" if failure.exit_code == 4 else "error",
        "error": asdict(failure) if failure else None,
        "precision": options.precision,
        "files": [*stored, described(listed)],
        "tools": python | {name: importlib.metadata.version(name) for name in options.packages},
        "seconds": round(seconds, 3),
    }
    told.write_text(json.dumps({**head, **result}, indent=2, allow_nan=False))
    if failure is not None and failure.kind == "StoreUnavailableError":
        return failure
    try:
        run.put(listed)
        run.put(told)
    except PodError as error:
        return failure or error
    return failure


def main(argv: list[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    options = arguments(argv)
    started = time.monotonic()
    result: dict[str, Any] = {}
    failure: PodError | None = None
    with tempfile.TemporaryDirectory(prefix="convert-") as folder:
        run = Run(options, s3_client(), Path(folder), options.timeout_s)
        try:
            work(run, result)
        except PodError as error:
            failure = error
        except Exception as error:  # whatever it is, the result must tell
            failure = unexpected(error)
        failure = report(run, result, failure, time.monotonic() - started)
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr, flush=True)
    else:
        say("done", f"{time.monotonic() - started:.1f} s")
    return failure.exit_code if failure else 0


if __name__ == "__main__":
    raise SystemExit(main())
