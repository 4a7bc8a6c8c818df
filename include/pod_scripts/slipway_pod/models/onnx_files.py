"""ONNX models as files: reading, checking, writing, and sessions of ONNX Runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError, first_line
from slipway_pod.models.tensors import Signature, Tensor

# Triton's name for each element type that ONNX Runtime names.
DATATYPES = {"float": "FP32", "float16": "FP16", "bfloat16": "BF16", "double": "FP64", "string": "BYTES"}
DATATYPES |= {name: name.upper() for name in ("bool", "int8", "int16", "int32", "int64")}
DATATYPES |= {name: name.upper() for name in ("uint8", "uint16", "uint32", "uint64")}


def load_checked(path: Path, name: str) -> Any:
    """Read a model and have ONNX check it in full, shapes included.

    :raises PodError: of kind ModelInvalidError.
    """
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
    """Write a model so that equal models are equal bytes."""
    path.write_bytes(model.SerializeToString(deterministic=True))


def open_session(path: Path, name: str, *, optimise: bool) -> Any:
    """Return an ONNX Runtime session on the CPU: as the server would run it, or with every optimisation off."""
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
    """Return the names, Triton datatypes and shapes of a session's tensors.

    :raises PodError: of kind ModelInvalidError, for what is no plain tensor.
    """

    return Signature(tuple(map(_tensor, session.get_inputs())), tuple(map(_tensor, session.get_outputs())))


def read_overridable(session: Any) -> list[Tensor]:
    """Return the initializers that a request may replace: those that are also inputs of the graph."""
    return [_tensor(one) for one in session.get_overridable_initializers()]


def _tensor(argument: Any) -> Tensor:
    datatype = DATATYPES.get(argument.type.removeprefix("tensor(").removesuffix(")"))
    if datatype is None:
        what = f"The model's {argument.name!r} is not a tensor that Triton can carry"
        remedy = "export the model with plain tensors (for scikit-learn: options={'zipmap': False})"
        raise PodError("ModelInvalidError", what, found=argument.type, remedy=remedy)
    sizes = (size if isinstance(size, int) and size >= 0 else -1 for size in argument.shape)
    return Tensor(argument.name, datatype, tuple(sizes))


def used_domains(graph: Any) -> set[str]:
    """Return the operator domains that a graph uses, its inner graphs included; ONNX's own is the empty string."""
    found = set()
    for node in graph.node:
        found.add("" if node.domain == "ai.onnx" else node.domain)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= used_domains(inner)
    return found


def keep_opset_imports(model: Any, domains: set[str]) -> None:
    """Keep the imports of `domains` only: ONNX Runtime's tools list domains that no node uses."""
    kept = [entry for entry in model.opset_import if entry.domain in domains]
    del model.opset_import[:]
    model.opset_import.extend(kept)
