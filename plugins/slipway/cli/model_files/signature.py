"""The signature of an ONNX file, read without running it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.plain import plain
from slipway_core.tensors import ModelSignature, TensorSpec

# A protobuf's own limit; weights of larger models lie in files beside it.
MOST_BYTES = 2**31 - 1
MOST_TENSORS = 1000
MOST_NAME_CHARACTERS = 1000
MOST_SIZES = 16
# Triton's name of each element type of ONNX, by the name that ONNX has for it.
_DATATYPES = {"FLOAT": "FP32", "FLOAT16": "FP16", "BFLOAT16": "BF16", "DOUBLE": "FP64", "STRING": "BYTES"}
_DATATYPES |= {
    name: name for name in ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
}


def read_signature(path: Path) -> ModelSignature:
    """Return names, datatypes and shapes of an ONNX model; -1 is a size that may vary.

    :raises CommandError: it cannot be read, or has tensors that Triton cannot carry.
    """
    return signature_of(path, load_graph(path).graph)


def load_graph(path: Path) -> Any:
    """Return an ONNX file as onnx's own object, without the weights that lie in files beside it.

    :raises CommandError: it cannot be read.
    """
    try:
        import onnx
    except ImportError:
        raise CommandError(
            "reading a model's file needs the library onnx, which is not installed",
            code=ExitCode.USAGE,
            expected="onnx",
            found="none",
            remedy="pip install onnx, or install this command with the extra `init`",
        ) from None
    _require_readable(path)
    try:
        return onnx.load(path, load_external_data=False)
    except Exception as error:  # a parser of a foreign format may raise anything
        raise _unusable(path, plain(str(error))[:200] or type(error).__name__) from error


def signature_of(path: Path, graph: Any) -> ModelSignature:
    """Return the signature of a graph.

    :param path: its file, for errors.
    :raises CommandError: it has tensors that Triton cannot carry.
    """
    try:
        if not graph.node or not graph.input or not graph.output:
            raise _unusable(path, "a graph without nodes, inputs or outputs")
        weights = {tensor.name for tensor in graph.initializer}
        values = [one for one in graph.input if one.name not in weights]
        if max(len(values), len(graph.output)) > MOST_TENSORS:
            found = f"{len(values)} inputs and {len(graph.output)} outputs, more than {MOST_TENSORS}"
            raise _unusable(path, found)
        inputs = tuple(_tensor(path, one) for one in values)
        return ModelSignature(inputs=inputs, outputs=tuple(_tensor(path, one) for one in graph.output))
    except CommandError:
        raise
    except Exception as error:  # a parser of a foreign format may raise anything
        raise _unusable(path, plain(str(error))[:200] or type(error).__name__) from error


def _require_readable(path: Path) -> None:
    """Refuse what is no file, which may never end, and what is larger than a protobuf can be."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise _unusable(path, plain(getattr(error, "strerror", None) or str(error))) from None
    if not stat.S_ISREG(found.st_mode):
        raise _unusable(path, "something other than a plain file")
    if found.st_size > MOST_BYTES:
        raise _unusable(
            path,
            f"{found.st_size} bytes, more than {MOST_BYTES}: keep the weights in separate files in the same folder",
        )


def _tensor(path: Path, value: Any) -> TensorSpec:
    from onnx import TensorProto

    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise _unusable(path, f"`{plain(value.name)}` is a {kind or 'value without a type'}, not a tensor")
    tensor = value.type.tensor_type
    number = tensor.elem_type
    named = TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else str(number)
    if named not in _DATATYPES:
        raise _unusable(path, f"`{plain(value.name)}` holds {named}, which Triton cannot carry")
    if not 0 < len(value.name) <= MOST_NAME_CHARACTERS or any(ord(one) < 32 for one in value.name):
        raise _unusable(path, f"a tensor whose name is {plain(value.name)[:50]!r}")
    if len(tensor.shape.dim) > MOST_SIZES:
        raise _unusable(
            path, f"`{plain(value.name)}` has {len(tensor.shape.dim)} sizes, more than {MOST_SIZES}"
        )
    sizes = (
        size.dim_value if size.HasField("dim_value") and size.dim_value >= 0 else -1
        for size in tensor.shape.dim
    )
    return TensorSpec(name=value.name, datatype=_DATATYPES[named], shape=tuple(sizes))  # type: ignore[arg-type]


def _unusable(path: Path, found: str) -> CommandError:
    return CommandError(
        f"{path} cannot be released as it is",
        code=ExitCode.USAGE,
        expected="an ONNX model whose inputs and outputs are plain tensors",
        found=found,
        remedy="export it again (from scikit-learn with options={'zipmap': False}); python -m onnx.checker says more",
    )
