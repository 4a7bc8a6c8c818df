#!/usr/bin/env python3
"""Converts an ONNX model for serving: check, simplify, optimise, compare with the source over the golden set.

Reads the model and the golden set from S3, writes `model.onnx` and, last, `result.json` under the
destination. The result is written whatever happened, as long as S3 answers.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 4 the converted model answers otherwise than its
source; 75 try again later (S3 does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib
import importlib.metadata
import json
import math
import multiprocessing
import os
import platform
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

EXIT_CODES = {
    "UserError": 3,
    "InputMissingError": 3,
    "ModelInvalidError": 3,
    "GoldenSetError": 3,
    "ParityRefusedError": 4,
    "StoreUnavailableError": 75,
    "TimedOutError": 75,
    "SlipwayError": 1,
}
# Triton's word for each element type that ONNX Runtime names.
DATATYPES = {
    "tensor(float)": "FP32",
    "tensor(float16)": "FP16",
    "tensor(bfloat16)": "BF16",
    "tensor(double)": "FP64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(bool)": "BOOL",
    "tensor(string)": "BYTES",
}
NUMPY_NAMES = {
    "FP32": "float32",
    "FP16": "float16",
    "FP64": "float64",
    "BOOL": "bool",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}
BATCH_ROWS = 64
WORST_ROWS = 5


class PodError(Exception):
    """Why this run did not pass, in the words of the project's error tree."""

    def __init__(
        self,
        kind: str,
        what: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.kind, self.what, self.expected, self.found, self.remedy = kind, what, expected, found, remedy
        self.payload = dict(payload or {})

    def __str__(self) -> str:
        details = [("Expected", self.expected), ("Found", self.found), ("Remedy", self.remedy)]
        sentences = [self.what, *(f"{label}: {text}" for label, text in details if text)]
        return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences)

    def __reduce__(self) -> tuple[Any, ...]:
        # The keywords travel between processes in the state.
        return (type(self), (self.kind, self.what), self.__dict__)

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        keys = ("kind", "what", "expected", "found", "remedy")
        return {key: getattr(self, key) for key in keys}


class Store:
    """S3, by the standard AWS_* environment; its errors become PodErrors."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        retries: Any = {"mode": "standard", "total_max_attempts": 4}
        self._client = boto3.client("s3", config=Config(connect_timeout=5, read_timeout=60, retries=retries))

    def download(self, url: str, target: Path) -> None:
        """Writes an object to a file. Raises PodError."""
        bucket, key = split_url(url)
        self._call(url, lambda: self._client.download_file(bucket, key, str(target)))

    def upload(self, source: Path, url: str) -> None:
        """Writes a file to an object. Raises PodError."""
        bucket, key = split_url(url)
        self._call(url, lambda: self._client.upload_file(str(source), bucket, key))

    def write_json(self, value: Mapping[str, Any], url: str) -> None:
        """Writes a value as a JSON object. Raises PodError."""
        bucket, key = split_url(url)
        body = json.dumps(value, indent=2, allow_nan=False).encode()
        self._call(
            url,
            lambda: self._client.put_object(
                Bucket=bucket, Key=key, Body=body, ContentType="application/json"
            ),
        )

    def delete(self, url: str) -> None:
        """Removes an object; one that is not there is no error. Raises PodError."""
        bucket, key = split_url(url)
        self._call(url, lambda: self._client.delete_object(Bucket=bucket, Key=key))

    @staticmethod
    def _call(url: str, act: Callable[[], Any]) -> None:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            act()
        except NoCredentialsError as error:
            remedy = "give the pod's service account a role that may read and write the bucket"
            raise PodError("UserError", f"No AWS credentials to reach {url}", remedy=remedy) from error
        except ClientError as error:
            raise store_error(url, error.response) from error
        except (BotoCoreError, Boto3Error, OSError) as error:
            cause = error.__cause__ or error.__context__
            if isinstance(cause, ClientError):
                raise store_error(url, cause.response) from error
            raise PodError(
                "StoreUnavailableError",
                f"S3 does not answer for {url}",
                found=f"{type(error).__name__} after 4 attempts",
                remedy="check AWS_ENDPOINT_URL, the network and the store, then run the task again",
            ) from error


def store_error(url: str, response: Mapping[str, Any]) -> PodError:
    """The PodError for an error answer of S3: what is missing, what is forbidden, or what may pass."""
    code = str(response.get("Error", {}).get("Code", "unknown"))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code in ("NoSuchKey", "NoSuchBucket") or status == 404:
        return PodError(
            "InputMissingError",
            f"There is no {url}",
            expected="an object that can be read",
            found=code,
            remedy="put the object there, or correct `source` in the release file",
        )
    if status in (401, 403):
        return PodError(
            "UserError",
            f"S3 refuses access to {url}",
            found=code,
            remedy="give the pod's service account a role that may read and write the bucket",
        )
    return PodError(
        "StoreUnavailableError",
        f"S3 fails for {url}",
        found=f"{code} (HTTP {status})",
        remedy="run the task again",
    )


def split_url(url: str) -> tuple[str, str]:
    """`s3://bucket/a/b` → (`bucket`, `a/b`)."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def s3_url(text: str) -> str:
    """An argument that must be an S3 address with a key, returned without a trailing slash."""
    bucket, key = split_url(text)
    if not text.startswith("s3://") or not bucket or not key:
        raise argparse.ArgumentTypeError(f"expected s3://BUCKET/KEY, found {text!r}")
    return text.rstrip("/")


def positive(text: str) -> float:
    """An argument that must be a finite number above 0."""
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value


def not_negative(text: str) -> float:
    """An argument that must be a finite number, 0 or above."""
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"expected a number of 0 or above, found {text!r}")
    return value


def say(phase: str, text: str) -> None:
    """One line of progress."""
    print(f"{phase}: {text}", flush=True)


@dataclass(frozen=True)
class Tensor:
    """One input or output. A dimension that is not fixed is -1; `shape` is None when the rank is unknown."""

    name: str
    datatype: str
    shape: tuple[int, ...] | None

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape or ())}


@dataclass(frozen=True)
class Signature:
    """What a model takes and answers."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        return {
            "inputs": [tensor.to_json() for tensor in self.inputs],
            "outputs": [tensor.to_json() for tensor in self.outputs],
        }


@dataclass(frozen=True)
class Tolerance:
    """Values are alike when |source - converted| <= absolute + relative * |source|."""

    absolute: float
    relative: float


# ---------------------------------------------------------------- the model


def load_checked(path: Path, name: str) -> Any:
    """Reads a model and has ONNX check it in full, shapes included. Raises PodError (ModelInvalidError)."""
    import onnx

    remedy = "export the model again as one ONNX file, run onnx.checker over it, and upload it whole"
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"{name} is not a valid ONNX model",
            expected="a whole model in one file that onnx.checker accepts",
            found=f"{path.stat().st_size} bytes, {first_line(error)}",
            remedy=remedy,
        ) from error
    if not model.graph.node:
        raise PodError(
            "ModelInvalidError", f"{name} has no nodes", expected="a model", found="none", remedy=remedy
        )
    return model


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
        raise PodError(
            "ModelInvalidError",
            f"{name} cannot be loaded by ONNX Runtime {onnxruntime.__version__}",
            expected="a model whose operators and opset this ONNX Runtime knows",
            found=first_line(error),
            remedy="export it with an opset that this version supports",
        ) from error


def read_signature(session: Any) -> Signature:
    """Names, Triton datatypes and shapes. Raises PodError (ModelInvalidError) for what is no plain tensor."""

    def tensor(argument: Any, role: str) -> Tensor:
        if argument.type not in DATATYPES:
            raise PodError(
                "ModelInvalidError",
                f"The model's {role} {argument.name!r} is not a tensor that Triton can carry",
                expected=f"one of {', '.join(sorted(set(DATATYPES.values())))}",
                found=argument.type,
                remedy="export the model with plain tensors (for scikit-learn: options={'zipmap': False})",
            )
        sizes = argument.shape
        shape = (
            tuple(size if isinstance(size, int) and size >= 0 else -1 for size in sizes) if sizes else None
        )
        return Tensor(argument.name, DATATYPES[argument.type], shape)

    return Signature(
        tuple(tensor(argument, "input") for argument in session.get_inputs()),
        tuple(tensor(argument, "output") for argument in session.get_outputs()),
    )


def require_same_signature(before: Signature, after: Signature) -> None:
    """Raises ValueError when a rewrite changed a name, a datatype or a shape that was fixed."""

    def alike(a: Tensor, b: Tensor) -> bool:
        if (a.name, a.datatype) != (b.name, b.datatype):
            return False
        if a.shape is None or b.shape is None:
            return True
        return len(a.shape) == len(b.shape) and all(
            x == y or -1 in (x, y) for x, y in zip(a.shape, b.shape, strict=True)
        )

    for role, old, new in (
        ("inputs", before.inputs, after.inputs),
        ("outputs", before.outputs, after.outputs),
    ):
        if len(old) != len(new) or not all(map(alike, old, new)):
            raise ValueError(f"it changed the {role} from {old} to {new}")
    if any(a.shape != b.shape for a, b in zip(before.inputs, after.inputs, strict=True)):
        raise ValueError(f"it changed the shapes of the inputs from {before.inputs} to {after.inputs}")


def simplify(model: Any, _: Path) -> Any:
    """Folds constants and removes what does nothing."""
    return importlib.import_module("onnxslim").slim(model)


def optimise(model: Any, workdir: Path) -> Any:
    """ONNX Runtime's basic level: rewrites that hold on any hardware.

    The higher levels fuse nodes for the processor at hand; the server does that itself when it loads a model.
    """
    import onnx
    import onnxruntime

    source, target = workdir / "before.onnx", workdir / "after.onnx"
    onnx.save(model, source)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    optimised = onnx.load(target)
    foreign = used_domains(optimised.graph) - used_domains(model.graph)
    if foreign:
        raise ValueError(
            f"it brought in operators of {', '.join(sorted(foreign))}, which other runtimes lack"
        )
    restore_opset_imports(optimised, model)
    return optimised


def used_domains(graph: Any) -> set[str]:
    """The operator domains that a graph uses, its inner graphs included; ONNX's own is the empty string."""
    found = set()
    for node in graph.node:
        found.add("" if node.domain == "ai.onnx" else node.domain)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= used_domains(inner)
    return found


def restore_opset_imports(model: Any, before: Any) -> None:
    """ONNX Runtime lists every domain it knows: only those of the source are needed, and known elsewhere."""
    known = {entry.domain for entry in before.opset_import}
    kept = [entry for entry in model.opset_import if entry.domain in known]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def rewrite(model: Any, workdir: Path, signature: Signature) -> tuple[Any, list[dict[str, Any]]]:
    """Applies each pass in turn. One that fails is left out and says why: the model is no worse for it."""
    passes: list[dict[str, Any]] = []
    for name, act in (("simplify", simplify), ("optimise", optimise)):
        before = len(model.graph.node)
        try:
            candidate = act(clone(model), workdir)
            path = workdir / f"{name}.onnx"
            save(candidate, path)
            load_checked(path, f"the model after {name}")
            require_same_signature(signature, read_signature(open_session(path, name, optimise=False)))
        except Exception as error:  # a rewriter may fail in any way; the model stays as it was
            say(name, f"left out: {first_line(error)}")
            passes.append({"name": name, "outcome": "left out", "reason": first_line(error)})
            continue
        model = candidate
        after = len(model.graph.node)
        say(name, f"{before} nodes before, {after} after")
        passes.append({"name": name, "outcome": "applied", "nodes_before": before, "nodes_after": after})
    return model, passes


def clone(model: Any) -> Any:
    """An independent copy of a model."""
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def save(model: Any, path: Path) -> None:
    """Writes a model so that equal models are equal bytes."""
    path.write_bytes(model.SerializeToString(deterministic=True))


# ---------------------------------------------------------------- the golden set


def read_golden(path: Path, name: str, inputs: tuple[Tensor, ...]) -> dict[str, Any]:
    """The golden set's array for each input, first dimension rows. Raises PodError (GoldenSetError)."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise PodError(
            "GoldenSetError",
            f"{name} cannot be read",
            expected="a NumPy .npz archive without pickled objects",
            found=f"{path.stat().st_size} bytes, {first_line(error)}",
            remedy="write it with numpy.savez(path, INPUT=…, LABEL=…) from arrays of numbers or strings",
        ) from error
    require_columns(name, arrays, inputs)
    for tensor in inputs:
        require_column_fits(name, arrays[tensor.name], tensor)
    rows = {tensor.name: len(arrays[tensor.name]) for tensor in inputs}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        raise PodError(
            "GoldenSetError",
            f"The columns of {name} do not have one and the same number of rows",
            expected="at least one row, as many in each column",
            found=", ".join(f"{column}: {count}" for column, count in rows.items()),
            remedy="write the golden set again from whole rows",
        )
    return {tensor.name: arrays[tensor.name] for tensor in inputs}


def require_columns(name: str, arrays: Mapping[str, Any], inputs: tuple[Tensor, ...]) -> None:
    """Raises PodError (GoldenSetError) unless there is an array for each input."""
    missing = [tensor.name for tensor in inputs if tensor.name not in arrays]
    if not missing:
        return
    near = {column: difflib.get_close_matches(column, list(arrays), n=1) for column in missing}
    hints = [f"{match[0]!r} looks like {column!r}" for column, match in near.items() if match]
    raise PodError(
        "GoldenSetError",
        f"{name} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
        expected=f"one array for each input of the model: {', '.join(tensor.name for tensor in inputs)}",
        found=", ".join(sorted(arrays)) or "no array",
        remedy="name the arrays after the model's inputs" + (f" ({'; '.join(hints)})" if hints else ""),
    )


def require_column_fits(name: str, array: Any, tensor: Tensor) -> None:
    """Raises PodError (GoldenSetError) unless type and shape are the input's."""
    fits_type = (
        array.dtype.kind in "US" if tensor.datatype == "BYTES" else array.dtype.name == numpy_name(tensor)
    )
    shape = tensor.shape or (-1, *array.shape[1:])
    # The first dimension is the batch: a model that fixes it is fed that many rows at a time.
    fits_shape = array.ndim == len(shape) and all(
        size in (-1, actual) for size, actual in zip(shape[1:], array.shape[1:], strict=True)
    )
    if fits_type and fits_shape:
        return
    raise PodError(
        "GoldenSetError",
        f"Column {tensor.name!r} of {name} does not fit the model's input",
        expected=f"{numpy_name(tensor)} of shape {['rows', *shape[1:]]} (-1: any size)",
        found=f"{array.dtype.name} of shape {list(array.shape)}",
        remedy="write the golden set with the type and shape that the model takes",
    )


def numpy_name(tensor: Tensor) -> str:
    """NumPy's name for a tensor's datatype."""
    return NUMPY_NAMES.get(tensor.datatype, "str")


# ---------------------------------------------------------------- parity


def answer_all(session: Any, signature: Signature, golden: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The model's outputs over all golden rows, batch by batch. Raises PodError (ModelInvalidError)."""
    import numpy as np

    rows = len(next(iter(golden.values())))
    fixed = [tensor.shape[0] for tensor in signature.inputs if tensor.shape and tensor.shape[0] > 0]
    size = fixed[0] if fixed else min(BATCH_ROWS, rows)
    names = [tensor.name for tensor in signature.outputs]
    parts: dict[str, list[Any]] = {output: [] for output in names}
    for start in range(0, rows, size):
        # The last batch is filled up with its last row where the model fixes the batch size.
        wanted = min(size, rows - start)
        taken = np.minimum(np.arange(start, start + (size if fixed else wanted)), rows - 1)
        feeds = {column: as_fed(array[taken]) for column, array in golden.items()}
        for output, value in zip(
            names, run(session, names, feeds, f"{name}, golden rows from {start}"), strict=True
        ):
            require_batch(output, value, len(taken))
            parts[output].append(value[:wanted])
    return {output: np.concatenate(arrays) for output, arrays in parts.items()}


def as_fed(array: Any) -> Any:
    """Strings go to ONNX Runtime as objects; numbers as they are."""
    if array.dtype.kind == "S":
        return array.astype(str).astype(object)
    return array.astype(object) if array.dtype.kind == "U" else array


def run(session: Any, names: list[str], feeds: Mapping[str, Any], where: str) -> list[Any]:
    """One inference. Raises PodError (ModelInvalidError) when the model fails on these rows."""
    try:
        return list(session.run(names, dict(feeds)))
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"The model fails on the golden set ({where})",
            expected="an answer for every golden row",
            found=first_line(error),
            remedy="correct the model, or the golden set if those rows are not valid inputs",
        ) from error


def require_batch(output: str, value: Any, rows: int) -> None:
    """Raises PodError (ModelInvalidError) unless an output has one row for each input row."""
    if getattr(value, "ndim", 0) >= 1 and len(value) == rows:
        return
    raise PodError(
        "ModelInvalidError",
        f"Output {output!r} is not one row for each input row",
        expected=f"a first dimension of {rows}",
        found=f"shape {list(getattr(value, 'shape', ()))}",
        remedy="export the model with the batch as the first dimension of every input and output",
    )


def compare(
    source: Mapping[str, Any], converted: Mapping[str, Any], tolerance: Tolerance
) -> list[dict[str, Any]]:
    """One entry for each output: how far the converted model is from its source, and the rows most off."""
    return [compare_output(name, source[name], converted[name], tolerance) for name in source]


def compare_output(name: str, source: Any, converted: Any, tolerance: Tolerance) -> dict[str, Any]:
    """The entry of one output. A difference that is no number (NaN against a number) counts as endless."""
    import numpy as np

    rows = len(source)
    entry: dict[str, Any] = {"output": name, "rows": rows}
    if source.shape != converted.shape:
        shapes = {"source": f"shape {list(source.shape)}", "converted": f"shape {list(converted.shape)}"}
        worst = [{"row": 0, **shapes}]
        differences = {"max_abs_diff": None, "max_rel_diff": None}
        return {**entry, **differences, "mismatched_rows": rows, "pass": False, "worst": worst}
    a, b = source.reshape(rows, -1), converted.reshape(rows, -1)
    difference, relative, off = distances(a, b, tolerance)
    excess = np.where(off, np.nan_to_num(difference, nan=np.inf), -1.0)
    mismatched = int(off.any(axis=1).sum())
    return {
        **entry,
        "max_abs_diff": plain(difference.max(initial=0.0)),
        "max_rel_diff": plain(relative.max(initial=0.0)),
        "mismatched_rows": mismatched,
        "pass": mismatched == 0,
        "worst": worst_rows(a, b, excess) if mismatched else [],
    }


def distances(a: Any, b: Any, tolerance: Tolerance) -> tuple[Any, Any, Any]:
    """Absolute and relative difference of each element, and whether it is too large; each (rows, elements).

    The relative one is against |source|, or the absolute tolerance where |source| is smaller. Whole numbers,
    truth values and strings must be equal.
    """
    import numpy as np

    if a.dtype.kind != "f":
        off = a != b
        return off.astype(np.float64), off.astype(np.float64), off
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    # Equal infinities and two NaNs are alike; their difference would not be a number.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = np.maximum(np.abs(a), max(tolerance.absolute, float(np.finfo(np.float32).tiny)))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
        relative = np.where(same, 0.0, difference / scale)
        near = difference <= tolerance.absolute + tolerance.relative * np.abs(a)
    return difference, relative, ~(same | (near & np.isfinite(difference)))


def worst_rows(a: Any, b: Any, excess: Any) -> list[dict[str, Any]]:
    """The rows most off, each with its element that is most off; `excess` is below 0 where all is well."""
    import numpy as np

    by_row = excess.max(axis=1)
    order = np.argsort(-by_row, kind="stable")[:WORST_ROWS]
    worst = []
    for row in (int(row) for row in order if by_row[row] >= 0):
        index = int(np.argmax(excess[row]))
        values = {"source": plain(a[row, index]), "converted": plain(b[row, index])}
        worst.append({"row": row, "index": index, **values})
    return worst


def plain(value: Any) -> Any:
    """A NumPy scalar as JSON can hold it: not-a-number and infinities become strings."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def require_parity(parity: list[dict[str, Any]], tolerance: Tolerance, payload: Mapping[str, Any]) -> None:
    """Raises PodError (ParityRefusedError) unless every output is within the tolerance."""
    failed = [entry for entry in parity if not entry["pass"]]
    if not failed:
        return
    found = "; ".join(
        f"{entry['output']}: {entry['mismatched_rows']} of {entry['rows']} rows off, "
        f"by up to {entry['max_abs_diff']}"
        for entry in failed
    )
    raise PodError(
        "ParityRefusedError",
        "The converted model does not answer as its source does",
        expected=f"a difference of at most {tolerance.absolute:g} + {tolerance.relative:g} × |source|",
        found=found,
        remedy="look at the worst rows in result.json; widen conversion.parity if the difference is harmless",
        payload=payload,
    )


def require_deterministic(
    session: Any,
    signature: Signature,
    golden: Mapping[str, Any],
    answers: Mapping[str, Any],
    tolerance: Tolerance,
) -> None:
    """Raises PodError (ModelInvalidError) when the source does not give its `answers` again.

    Asked of every model: two sessions draw the same random numbers, so parity alone does not show it.
    """
    first = {column: array[:BATCH_ROWS] for column, array in golden.items()}
    again = answer_all(session, signature, first, "the source model")
    before = {output: values[:BATCH_ROWS] for output, values in answers.items()}
    unstable = [entry for entry in compare(before, again, tolerance) if not entry["pass"]]
    if unstable:
        raise PodError(
            "ModelInvalidError",
            "The source model answers the same rows differently from run to run",
            expected="the same answer to the same input",
            found="; ".join(
                f"{entry['output']} differs by up to {entry['max_abs_diff']}" for entry in unstable
            ),
            remedy="export the model in inference mode, without random operators (dropout, sampling)",
        )


# ---------------------------------------------------------------- the run


def convert(workdir: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Converts `source.onnx` into `model.onnx` in the work folder; returns the payload. Raises PodError."""
    source_path, target_path = workdir / "source.onnx", workdir / "model.onnx"
    tolerance = Tolerance(options.abs_tolerance, options.rel_tolerance)
    source = load_checked(source_path, options.source)
    session = open_session(source_path, options.source, optimise=False)
    signature = read_signature(session)
    say("check", f"{len(source.graph.node)} nodes, {source_path.stat().st_size} bytes, valid")
    golden = read_golden(workdir / "golden.npz", options.golden, signature.inputs)
    expected = answer_all(session, signature, golden, "the source model")
    require_deterministic(session, signature, golden, expected, tolerance)

    model, passes = rewrite(source, workdir, signature)
    save(model, target_path)
    converted = open_session(target_path, "the converted model", optimise=True)
    final = with_known_ranks(read_signature(converted), expected)
    answers = answer_all(converted, final, golden, "the converted model")
    parity = compare(expected, answers, tolerance)
    content = target_path.read_bytes()
    payload = {
        "model": {
            "file": "model.onnx",
            "size_bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        },
        "signature": final.to_json(),
        "passes": passes,
        "parity": parity,
    }
    require_parity(parity, tolerance, payload)
    say("parity", f"{len(next(iter(golden.values())))} rows alike in {len(parity)} outputs")
    return payload


def with_known_ranks(signature: Signature, answers: Mapping[str, Any]) -> Signature:
    """Fills in the shape of an output whose rank the model does not state, from an answer it gave."""
    outputs = (
        tensor
        if tensor.shape is not None
        else Tensor(tensor.name, tensor.datatype, (-1, *answers[tensor.name].shape[1:]))
        for tensor in signature.outputs
    )
    return Signature(signature.inputs, tuple(outputs))


def run_limited(act: Callable[[], dict[str, Any]], timeout_s: float) -> dict[str, Any]:
    """Runs `act` in a child process, so that a library that loops or crashes ends there and is reported."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=answer_over, args=(act, theirs))
    child.start()
    theirs.close()
    try:
        if not ours.poll(timeout_s):
            raise PodError(
                "TimedOutError",
                "The conversion did not finish in time",
                expected=f"an end within {timeout_s:g} s",
                found="still at work",
                remedy="raise conversion.timeout_s in the release file, or give the pod more CPU",
            )
        answer = ours.recv()
    except EOFError:
        child.join()
        raise crash_error(child.exitcode or 0) from None
    finally:
        child.kill()
        child.join()
    if isinstance(answer, PodError):
        raise answer
    return dict(answer)


def answer_over(act: Callable[[], dict[str, Any]], pipe: Connection) -> None:
    """In the child: sends what `act` returns, or the PodError it raises."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        pipe.send(act())
    except PodError as failure:
        pipe.send(failure)
    except Exception as error:  # the parent reports it
        traceback.print_exc()
        pipe.send(unexpected(error))


def crash_error(exit_code: int) -> PodError:
    """The error for a child that died without an answer."""
    number = -exit_code
    name = signal.Signals(number).name if number in set(signal.Signals) else f"exit code {exit_code}"
    memory = " (most often: out of memory)" if name == "SIGKILL" else ""
    return PodError(
        "ModelInvalidError",
        "The converter crashed on this model",
        found=f"{name}{memory}",
        remedy="raise conversion.resources.memory in the release file; if it does not help, export it again",
    )


def unexpected(error: BaseException) -> PodError:
    """The error for what this program did not foresee; the log holds the traceback."""
    return PodError(
        "SlipwayError",
        "The converter failed in a way it does not know",
        found=f"{type(error).__name__}: {first_line(error)}",
        remedy="read the pod's log for the traceback, and report it",
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def tool_versions() -> dict[str, str]:
    """The versions of what had a hand in the result."""
    packages = ("numpy", "onnx", "onnxruntime", "onnxslim")
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in packages
    }


def execute(store: Store, options: argparse.Namespace) -> dict[str, Any]:
    """Downloads, converts, uploads the model; returns the payload, or raises PodError."""
    # A result of an earlier attempt must never be taken for this one's.
    store.delete(f"{options.destination}/result.json")
    with tempfile.TemporaryDirectory(prefix="convert-") as folder:
        workdir = Path(folder)
        store.download(options.source, workdir / "source.onnx")
        store.download(options.golden, workdir / "golden.npz")
        say("fetch", f"{options.source}, {options.golden}")
        payload = run_limited(lambda: convert(workdir, options), options.timeout_s)
        store.upload(workdir / "model.onnx", f"{options.destination}/model.onnx")
        say("store", f"{options.destination}/model.onnx, {payload['model']['size_bytes']} bytes")
    return payload


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", required=True, type=s3_url, help="the trained model, s3://BUCKET/….onnx")
    parser.add_argument("--golden", required=True, type=s3_url, help="the golden set, s3://BUCKET/….npz")
    parser.add_argument(
        "--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX"
    )
    parser.add_argument("--precision", choices=["fp32"], default="fp32", help="of the converted model")
    parser.add_argument(
        "--abs-tolerance", type=not_negative, default=1e-4, help="absolute part of the tolerance"
    )
    parser.add_argument("--rel-tolerance", type=not_negative, default=1e-3, help="part relative to |source|")
    parser.add_argument(
        "--timeout-s", type=positive, default=600.0, help="limit for the conversion, in seconds"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    options = arguments(argv)
    started = time.monotonic()
    failure: PodError | None = None
    payload: dict[str, Any] = {}
    store: Store | None = None
    try:
        store = Store()
        payload = execute(store, options)
    except PodError as error:
        failure, payload = error, error.payload
    except Exception as error:  # whatever it is, the result must tell
        traceback.print_exc()
        failure = unexpected(error)
    code = EXIT_CODES[failure.kind] if failure else 0
    result = {
        "outcome": "refused" if code == 4 else "error" if failure else "pass",
        "error": failure.to_json() if failure else None,
        **payload,
        "tools": tool_versions(),
        "seconds": round(time.monotonic() - started, 3),
    }
    if store is not None and (failure is None or failure.kind != "StoreUnavailableError"):
        try:
            store.write_json(result, f"{options.destination}/result.json")
        except PodError as error:
            failure = failure or error
            code = code or EXIT_CODES[error.kind]
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr, flush=True)
    else:
        say("done", f"{result['seconds']} s")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
