"""Rewriting an ONNX model, pass by pass: simplified, optimised, in the wanted precision."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from slipway_pod.conversion.precision import to_fp16, to_int8
from slipway_pod.conversion.run import MODEL_FILE, ConversionRun
from slipway_pod.conversion.scalars import has_scalars, widen_scalars
from slipway_pod.errors import PodError, first_line
from slipway_pod.models.onnx_files import (
    keep_opset_imports,
    load_checked,
    open_session,
    read_overridable,
    read_signature,
    save,
    used_domains,
)
from slipway_pod.models.tensors import Signature, Tensor
from slipway_pod.program.progress import say

# Passes that nobody has asked for: the model is no worse without them.
OPTIONAL = ("simplify", "optimise")
# A model with more of them was exported with all of its weights as inputs, which nobody means to send.
MOST_OVERRIDABLE = 16


def rewrite(run: ConversionRun, path: Path, *, plainly: bool = False) -> dict[str, Any]:
    """Make `model.onnx` of a checked model: simplified, optimised, in the wanted precision.

    :param plainly: neither simplified nor optimised, since with these it has answered otherwise than its source.

    A simplifier or optimiser that fails is left out and says why: the model is no worse for it, and half of
    the time that is left stays for what follows. The precision was asked for: it is reached, or the run fails.
    """
    passes: list[dict[str, Any]] = []
    if has_scalars(load_checked(path, "the model")):
        target = run.folder / "scalars.onnx"
        widen_scalars(path, target)
        say(
            "scalars",
            "single numbers are taken and answered as tensors of one element, as Triton serves them",
        )
        passes.append({"name": "scalars", "outcome": "applied"})
        path = target
    for name, act in zip(OPTIONAL, (simplify, optimise), strict=True):
        if plainly:
            reason = "the model that was made with it answered otherwise than its source"
            passes.append({"name": name, "outcome": "left out", "reason": reason})
            continue
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
        name = "fp16" if half else f"int8 {run.options.quantization}"
        target = run.folder / "precise.onnx"
        lower = partial(apply, to_fp16 if half else to_int8, run, path, target, name)
        passes.append({"name": name, "outcome": "applied", **run.tool(name, lower)})
        path = target
    # The source stays where it is, to be made again.
    shutil.copyfile(path, run.folder / MODEL_FILE)
    return {"passes": passes}


def apply(
    act: Callable[[ConversionRun, Path, Path], None],
    run: ConversionRun,
    source: Path,
    target: Path,
    name: str,
) -> dict[str, Any]:
    """Run one pass from file to file, and check its result."""
    before = load_checked(source, f"the model before {name}")
    session = open_session(source, f"the model before {name}", optimise=False)
    signature, own = read_signature(session), [one.name for one in read_overridable(session)]
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
    if name in OPTIONAL and len(own) <= MOST_OVERRIDABLE:
        require_overridable(name, own, [one.name for one in read_overridable(session)])
    say(name, f"{len(before.graph.node)} nodes before, {len(after.graph.node)} after")
    return {"nodes_before": len(before.graph.node), "nodes_after": len(after.graph.node)}


def require_overridable(name: str, before: list[str], after: list[str]) -> None:
    """Raise PodError when a pass took away an initializer that a request may replace: clients may be offered it."""
    lost = sorted(set(before) - set(after))
    if lost:
        what = f"{name} took away what a request may replace"
        raise PodError(
            "ModelInvalidError", what, expected=", ".join(before), found=f"without {', '.join(lost)}"
        )


def require_same_signature(name: str, before: Signature, after: Signature) -> None:
    """Raise PodError when a pass changed a name, a datatype or a shape that was fixed."""

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
    raise PodError("ModelInvalidError", what, expected=str(before.to_json()), found=str(after.to_json()))


def simplify(_: ConversionRun, source: Path, target: Path) -> None:
    """Fold constants and remove nodes without effect."""
    import onnx

    save(importlib.import_module("onnxslim").slim(onnx.load(source)), target)


def optimise(_: ConversionRun, source: Path, target: Path) -> None:
    """Apply ONNX Runtime's basic level: rewrites that are valid on any hardware.

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
