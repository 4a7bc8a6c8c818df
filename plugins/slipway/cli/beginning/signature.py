"""The signature of an ONNX file, read without running it, and what kind of answers it gives."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from include.model_release.tensors import ModelSignature, TensorSpec
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.plain import plain

# A protobuf's own limit; weights of larger models lie in files beside it.
MOST_BYTES = 2**31 - 1
MOST_TENSORS = 1000
MOST_NAME_CHARACTERS = 1000
MOST_SIZES = 16
Kind = Literal["classification", "regression", "text"]
# Triton's name of each element type of ONNX, by the name that ONNX has for it.
_DATATYPES = {"FLOAT": "FP32", "FLOAT16": "FP16", "BFLOAT16": "BF16", "DOUBLE": "FP64", "STRING": "BYTES"}
_DATATYPES |= {
    name: name for name in ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
}
_FLOATS = ("FP16", "FP32", "FP64", "BF16")
# Of several outputs that could hold the answers, the one with such a name is most likely meant.
_LIKELY = ("probabilities", "probability", "scores", "logits", "output", "prediction")


@dataclass(frozen=True)
class Answers:
    """Which output the golden set's labels are held against, and how; `classes` is None where it is not known."""

    output: str
    kind: Kind
    classes: int | None = None


def read_signature(path: Path) -> ModelSignature:
    """Return names, datatypes and shapes of an ONNX model; -1 is a size that may vary.

    :raises CommandError: it cannot be read, or has tensors that Triton cannot carry.
    """
    try:
        import onnx
    except ImportError:
        raise CommandError(
            "a model's file is read with the library onnx, which is not installed",
            code=ExitCode.USAGE,
            expected="onnx",
            found="none",
            remedy="pip install onnx, or install this command with its extra `init`",
        ) from None
    _require_readable(path)
    try:
        # Data beside the file are weights: a signature has none.
        graph = onnx.load(path, load_external_data=False).graph
        if not graph.node or not graph.input or not graph.output:
            raise _unusable(path, "a graph without nodes, inputs or outputs")
        weights = {tensor.name for tensor in graph.initializer}
        values = [one for one in graph.input if one.name not in weights]
        if max(len(values), len(graph.output)) > MOST_TENSORS:
            told = f"{len(values)} inputs and {len(graph.output)} outputs, more than {MOST_TENSORS}"
            raise _unusable(path, told)
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
        raise _unusable(path, "something that is no plain file")
    if found.st_size > MOST_BYTES:
        raise _unusable(
            path, f"{found.st_size} bytes, more than {MOST_BYTES}: keep the weights in files beside it"
        )


def guess_answers(signature: ModelSignature) -> Answers:
    """Guess which output holds the answers: scores by class, else a class, a number or a text for each row.

    :raises CommandError: none of them can.
    """
    ranked = sorted(
        signature.outputs, key=lambda tensor: (_rank(tensor), _likelihood(tensor.name), tensor.name)
    )
    best = next((tensor for tensor in ranked if _rank(tensor) < len(_RANKS)), None)
    if best is None:
        found = "; ".join(f"`{tensor.name}` {tensor}" for tensor in signature.outputs)
        raise CommandError(
            "no output of the model has one answer a row",
            code=ExitCode.USAGE,
            expected="an output of scores by class [rows, classes], or of a class, a number or a text [rows]",
            found=found,
            remedy="write the release file by hand: docs/bring-your-model.md, kinds of answers",
        )
    kind = _RANKS[_rank(best)]
    classes = (
        best.shape[1] if kind == "classification" and len(best.shape) == 2 and best.shape[1] > 1 else None
    )
    return Answers(best.name, kind, classes)


_RANKS: tuple[Kind, ...] = ("classification", "classification", "regression", "text")


def _rank(tensor: TensorSpec) -> int:
    """Return the place in `_RANKS`: scores by class, a class, a number, a text; behind all: none of these."""
    rows = len(tensor.shape) == 1 or (len(tensor.shape) == 2 and tensor.shape[1] == 1)
    if tensor.datatype in _FLOATS and len(tensor.shape) == 2 and not rows:
        return 0
    if not rows:
        return len(_RANKS)
    if tensor.datatype in _FLOATS:
        return 2
    return 3 if tensor.datatype == "BYTES" else 1


def _likelihood(name: str) -> int:
    return next((place for place, word in enumerate(_LIKELY) if word in name.lower()), len(_LIKELY))


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
        remedy="export it again (of scikit-learn with options={'zipmap': False}); python -m onnx.checker says more",
    )
