"""A golden set with the right names, types and shapes, and no right answers yet."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from include.model_release.gates.validation.golden_set import golden_from_arrays
from include.model_release.tensors import ModelSignature, TensorSpec
from slipway.cli.beginning.signature import Answers
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.plain import plain

VARYING_SIZE = 8
"""What a size that may vary becomes, where it is not the rows."""
MOST_VALUES = 2**27
"""Of all inputs together: a gigabyte of the widest."""
_SEED = 1
_FLOATS = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64}
_WHOLE = {
    name: np.dtype(name.lower())
    for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
}
_LABELS = ("label", "expected", "golden_label")


def label_name(signature: ModelSignature) -> str:
    """Return what the array of labels is called: no input may have that name."""
    inputs = {tensor.name for tensor in signature.inputs}
    return next(
        name
        for name in (*_LABELS, *(f"label_{number}" for number in range(len(inputs) + 1)))
        if name not in inputs
    )


def skeleton(signature: ModelSignature, answers: Answers, rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays: inputs of made-up values, always the same, and labels that are all 0, or empty texts.

    :param rows: how many; made a multiple of the first size where the model has a fixed one.
    :raises CommandError: the model has an input that no array can be made for.
    """
    random, rows = np.random.default_rng(_SEED), rounded_rows(signature, rows)
    _require_size(signature, rows)
    arrays = {tensor.name: _values(tensor, rows, random) for tensor in signature.inputs}
    arrays[label_name(signature)] = (
        np.full(rows, "", dtype="U1") if answers.kind == "text" else _zeros(answers, rows)
    )
    # What is written must be what the gate takes.
    golden_from_arrays(arrays, signature, label_name(signature), kind=answers.kind)
    return arrays


def _require_size(signature: ModelSignature, rows: int) -> None:
    """Refuse sizes, which the model's file only declares, whose arrays no machine has room for."""
    wanted = {tensor.name: math.prod(_shape(tensor, rows)) for tensor in signature.inputs}
    if sum(wanted.values()) <= MOST_VALUES:
        return
    name = max(wanted, key=lambda one: wanted[one])
    raise CommandError(
        f"a golden set of {rows} rows is too large to be made up",
        code=ExitCode.USAGE,
        expected=f"at most {MOST_VALUES} values in all inputs",
        found=f"{sum(wanted.values())}, {wanted[name]} of them in `{plain(name)[:100]}`",
        remedy="ask for fewer --rows, or write the golden set by hand: docs/bring-your-model.md",
    )


def rounded_rows(signature: ModelSignature, rows: int) -> int:
    """Return the number of rows, as a multiple of the first size that the model asks for."""
    fixed = {tensor.shape[0] for tensor in signature.inputs if tensor.shape and tensor.shape[0] > 0}
    size = fixed.pop() if len(fixed) == 1 else 1
    return max(-(-rows // size), 1) * size


def answered_by_model(
    path: Path, signature: ModelSignature, answers: Answers, arrays: dict[str, np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any]:
    """Return the model's own answers to the inputs, as labels.

    :raises CommandError: it cannot be run here.
    """
    try:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        size = next((one.shape[0] for one in signature.inputs if one.shape and one.shape[0] > 0), None)
        told = _run(session, signature, answers.output, arrays, size)
    except Exception as error:  # whatever a foreign runtime raises, the model could not be run
        raise CommandError(
            f"{path} could not be run to answer its own golden set",
            code=ExitCode.USAGE,
            expected="ONNX Runtime, and a model that takes made-up values",
            found=f"{type(error).__name__}: {str(error)[:200]}",
            remedy="leave --labels-from-model out, and put the true answers in yourself",
        ) from error
    if answers.kind == "classification":
        return np.asarray(
            told.argmax(axis=1) if answers.classes or told.ndim == 2 else told, dtype=np.int64
        ).reshape(-1)
    return told.reshape(-1).astype("U" if answers.kind == "text" else np.float64)


def write(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Write the arrays as an `.npz` file without pickles."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # `numpy.savez` takes names as arguments, and has arguments of its own.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _run(
    session: Any,
    signature: ModelSignature,
    output: str,
    arrays: dict[str, np.ndarray[Any, Any]],
    size: int | None,
) -> np.ndarray[Any, Any]:
    rows = len(next(iter(arrays.values())))
    step, parts = size or rows, []
    for start in range(0, rows, step):
        taken = {}
        for tensor in signature.inputs:
            part = arrays[tensor.name][start : start + step]
            taken[tensor.name] = part.astype(object) if tensor.datatype == "BYTES" else part
        parts.append(np.asarray(session.run([output], taken)[0]))
    return np.concatenate(parts)


def _zeros(answers: Answers, rows: int) -> np.ndarray[Any, Any]:
    return np.zeros(rows, dtype=np.int64 if answers.kind == "classification" else np.float64)


def _shape(tensor: TensorSpec, rows: int) -> tuple[int, ...]:
    return (rows, *(VARYING_SIZE if size < 0 else size for size in tensor.shape[1:]))


def _values(tensor: TensorSpec, rows: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
    if not tensor.shape:
        raise CommandError(
            f"the input `{tensor.name}` is a single value, which has no rows",
            code=ExitCode.USAGE,
            expected="inputs whose first size is the rows",
            found=str(tensor),
            remedy="export the model with a batch dimension",
        )
    shape = _shape(tensor, rows)
    if tensor.datatype == "BYTES":
        return np.full(shape, "example")
    if tensor.datatype == "BOOL":
        return random.integers(0, 2, shape).astype(bool)
    if tensor.datatype in _WHOLE:
        return random.integers(0, 2, shape).astype(_WHOLE[tensor.datatype])
    if tensor.datatype in _FLOATS:
        return random.random(shape).astype(_FLOATS[tensor.datatype])
    raise CommandError(
        f"the input `{tensor.name}` holds {tensor.datatype}, which NumPy has not",
        code=ExitCode.USAGE,
        expected="another type",
        found=str(tensor),
        remedy="export the model with FP32 inputs",
    )
