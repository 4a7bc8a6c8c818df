#!/usr/bin/env python3
"""Checks a model of Triton's Python backend and passes it through: model.py, its config.pbtxt, further files.

Nothing of the model is run unless `--try-import` asks for it: the program is compiled and read, and the signature
is taken from config.pbtxt. Reads the source (a folder or an archive) and the golden set from S3, writes the files as
they will lie in the model repository under DESTINATION/repository/, and, last, DESTINATION/result.json, which is
written whatever happened, as long as S3 answers.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 75 try again later (S3 does not answer, time is up);
1 an error in this program.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import multiprocessing
import platform
import re
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

EXIT_CODES = {
    "UserError": 3,
    "InputMissingError": 3,
    "ModelInvalidError": 3,
    "GoldenSetError": 3,
    "StoreUnavailableError": 75,
    "TimedOutError": 75,
    "SlipwayError": 1,
}
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
CONFIG = "config.pbtxt"
PROGRAM = "model.py"
READY = "ready.json"
MODULE_OF_TRITON = "triton_python_backend_utils"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*")
MAX_FILES = 10_000
NUMPY_NAMES = {
    "FP32": "float32",
    "FP16": "float16",
    "FP64": "float64",
    "BOOL": "bool",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}


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
    ) -> None:
        super().__init__(what)
        self.kind, self.what, self.expected, self.found, self.remedy = kind, what, expected, found, remedy

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


def invalid(what: str, **details: str) -> PodError:
    """The error for a model that must be mended."""
    return PodError("ModelInvalidError", what, **details)


class Store:
    """S3, by the standard AWS_* environment; its errors become PodErrors."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        retries: Any = {"mode": "standard", "total_max_attempts": 4}
        self._client = boto3.client("s3", config=Config(connect_timeout=5, read_timeout=60, retries=retries))

    def list(self, url: str) -> dict[str, int]:
        """Size by name, relative to the folder, of all objects below it. Raises PodError."""
        bucket, key = split_url(url)
        prefix = f"{key}/"
        with answered(url):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            return {
                entry["Key"].removeprefix(prefix): entry["Size"]
                for page in pages
                for entry in page.get("Contents", ())
            }

    def download(self, url: str, target: Path) -> None:
        """Writes an object to a file. Raises PodError."""
        bucket, key = split_url(url)
        target.parent.mkdir(parents=True, exist_ok=True)
        with answered(url):
            self._client.download_file(bucket, key, str(target))

    def upload(self, source: Path, url: str) -> None:
        """Writes a file to an object. Raises PodError."""
        bucket, key = split_url(url)
        with answered(url):
            self._client.upload_file(str(source), bucket, key)

    def write_json(self, value: Mapping[str, Any], url: str) -> None:
        """Writes a value as a JSON object. Raises PodError."""
        bucket, key = split_url(url)
        body = json.dumps(value, indent=2, allow_nan=False).encode()
        with answered(url):
            self._client.put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json")

    def delete(self, url: str) -> None:
        """Removes an object; one that is not there is no error. Raises PodError."""
        bucket, key = split_url(url)
        with answered(url):
            self._client.delete_object(Bucket=bucket, Key=key)


@contextmanager
def answered(url: str) -> Iterator[None]:
    """Turns what boto3 raises about `url` into a PodError."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
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
        remedy = "put the object there, or correct `source` in the release file"
        return PodError("InputMissingError", f"There is no {url}", found=code, remedy=remedy)
    if status in (401, 403):
        remedy = "give the pod's service account a role that may read and write the bucket"
        return PodError("UserError", f"S3 refuses access to {url}", found=code, remedy=remedy)
    found = f"{code} (HTTP {status})"
    return PodError("StoreUnavailableError", f"S3 fails for {url}", found=found, remedy="run the task again")


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


def plain_name(text: str) -> str:
    """An argument that must be usable as the name of a folder."""
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a plain name, found {text!r}")
    return text


def say(phase: str, text: str) -> None:
    """One line of progress."""
    print(f"{phase}: {text}", flush=True)


# ---------------------------------------------------------------- the files


def fetch(store: Store, options: argparse.Namespace, folder: Path) -> list[str]:
    """Brings the source into `folder`; returns what was left out. Raises PodError."""
    limit = int(options.max_size_mib * 1024 * 1024)
    if options.source.endswith(ARCHIVES):
        archive = folder.with_name(options.source.rsplit("/", 1)[1])
        store.download(options.source, archive)
        left_out = unpack(archive, folder, limit)
    else:
        objects = store.list(options.source)
        for name in (READY, options.golden.removeprefix(f"{options.source}/")):
            objects.pop(name, None)
        wanted = {name: size for name, size in objects.items() if is_wanted(name)}
        left_out = sorted(objects.keys() - wanted.keys())
        require_sizes(wanted, limit, options.source)
        for name in wanted:
            store.download(f"{options.source}/{name}", folder / name)
    say("fetch", f"{options.source}: {sum(1 for path in folder.rglob('*') if path.is_file())} files")
    return left_out


def is_wanted(name: str) -> bool:
    """Whether a file is the model's: not hidden, not compiled Python, not a marker for a folder."""
    parts = name.split("/")
    return not any(
        not part or (part.startswith(".") and part != "..") or part == "__pycache__" for part in parts
    )


def require_sizes(sizes: Mapping[str, int], limit: int, where: str) -> None:
    """Raises PodError unless the names are plain and everything together is within the limit in bytes."""
    if not sizes:
        remedy = "upload the model's files, or correct `source` in the release file"
        raise PodError("InputMissingError", f"There is nothing in {where}", remedy=remedy)
    strange = [name for name in sizes if not all(NAME.fullmatch(part) for part in name.split("/"))]
    if strange or any(".." in name for name in sizes):
        raise invalid(
            f"{where} has files whose names a model repository cannot have",
            expected="letters, digits and ._@+-, no `..`",
            found=", ".join(map(repr, (strange or list(sizes))[:5])),
            remedy="rename them",
        )
    if sum(sizes.values()) > limit or len(sizes) > MAX_FILES:
        raise invalid(
            f"{where} is too large",
            expected=f"at most {limit / 1024 / 1024:g} MiB in {MAX_FILES} files",
            found=f"{sum(sizes.values()) / 1024 / 1024:.1f} MiB in {len(sizes)} files",
            remedy="take out what does not serve, or raise conversion.max_size_mib in the release file",
        )


def unpack(archive: Path, folder: Path, limit: int) -> list[str]:
    """Writes an archive's regular files below `folder`; returns what was left out. Raises PodError.

    Nothing else of an archive is looked at: no link, no device, no right, no path that leads outside.
    """
    try:
        with opened(archive) as entries:
            files = {name: (size, read) for name, size, read in entries}
            wanted = {name: size for name, (size, _) in files.items() if is_wanted(name)}
            require_sizes(wanted, limit, archive.name)
            for name, size in wanted.items():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with files[name][1]() as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
                if target.stat().st_size != size:
                    raise ValueError(f"{name} is not as long as the archive says")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError) as error:
        raise invalid(
            f"{archive.name} cannot be unpacked",
            expected=f"a whole archive ({', '.join(ARCHIVES)}) of plain files",
            found=first_line(error),
            remedy="pack it again and upload it whole",
        ) from error
    return sorted(files.keys() - wanted.keys())


@contextmanager
def opened(archive: Path) -> Iterator[list[tuple[str, int, Callable[[], IO[bytes]]]]]:
    """Name, size in bytes and reader of each regular file of an archive."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as bundle:
            infos = [one for one in bundle.infolist() if not one.is_dir()]
            yield [(one.filename, one.file_size, lambda one=one: bundle.open(one)) for one in infos]
        return
    with tarfile.open(archive) as bundle:
        members = [one for one in bundle.getmembers() if one.isfile()]
        yield [
            (one.name.removeprefix("./"), one.size, lambda one=one: bundle.extractfile(one))
            for one in members
        ]


def beside_config(config: Any) -> set[str]:
    """The files that Triton looks for beside config.pbtxt and not in the version's folder."""
    labels = {tensor.label_filename for tensor in config.output if tensor.label_filename}
    mark = "$$TRITON_MODEL_DIRECTORY/"
    parameters = {key: value.string_value for key, value in config.parameters.items()}
    environment = parameters.get("EXECUTION_ENV_PATH", "")
    return labels | ({environment.removeprefix(mark)} if environment.startswith(mark) else set())


# ---------------------------------------------------------------- the configuration


@dataclass(frozen=True)
class Tensor:
    """One input or output; the shape has the batch dimension, and -1 where a size may vary."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


def read_config(path: Path) -> Any:
    """Triton's ModelConfig out of its text. Raises PodError (ModelInvalidError)."""
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    if not path.is_file():
        raise invalid(
            f"There is no {CONFIG}",
            expected=f"{CONFIG} with `input` and `output`, since no program is run to find them out",
            found="none",
            remedy=f"write it and put it beside {PROGRAM}",
        )
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise invalid(
            f"{CONFIG} cannot be read",
            expected="a text of Triton's ModelConfig",
            found=first_line(error),
            remedy="correct that line",
        ) from error


def tensors_of(config: Any, kind: str) -> tuple[Tensor, ...]:
    """The inputs or outputs that a configuration declares. Raises PodError (ModelInvalidError)."""
    from tritonclient.grpc import model_config_pb2

    batch = (-1,) if config.max_batch_size > 0 else ()
    found = []
    for tensor in getattr(config, kind):
        datatype = model_config_pb2.DataType.Name(tensor.data_type).removeprefix("TYPE_")
        if not tensor.name or datatype == "INVALID" or not tensor.dims:
            raise invalid(
                f"An {kind} in {CONFIG} is not complete",
                expected="`name`, `data_type` and `dims`",
                found=" ".join(str(tensor).split()) or "nothing",
                remedy="declare it in full",
            )
        shape = (*batch, *tensor.dims)
        found.append(Tensor(tensor.name, "BYTES" if datatype == "STRING" else datatype, shape))
    if not found:
        raise invalid(
            f"{CONFIG} declares no {kind}",
            expected=f"every {kind} with `name`, `data_type` and `dims`",
            found="none",
            remedy=f"declare them: auto_complete_config in {PROGRAM} is not run",
        )
    return tuple(found)


def require_python_backend(config: Any) -> None:
    """Raises PodError (ModelInvalidError) unless the configuration is of a Python model."""
    program = config.default_model_filename or PROGRAM
    if config.backend == "python" and program == PROGRAM:
        return
    raise invalid(
        f"{CONFIG} is not that of a Python model",
        expected=f'backend: "python", and {PROGRAM} as its file',
        found=f'backend: "{config.backend}", platform: "{config.platform}", file {program}',
        remedy="correct it, or release the model with another `conversion.target`",
    )


# ---------------------------------------------------------------- the program


def read_program(path: Path) -> ast.Module:
    """Parses and compiles a program, without running it. Raises PodError (ModelInvalidError)."""
    try:
        content = path.read_bytes()
        tree = ast.parse(content, path.name)
        compile(content, path.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        raise invalid(
            f"{path.name} is not valid Python {platform.python_version()}",
            expected="a program that compiles",
            found=f"{line}{first_line(error)}",
            remedy="correct it",
        ) from error
    return tree


def require_model_class(tree: ast.Module) -> bool:
    """Raises PodError unless there is a class TritonPythonModel with `execute`; says whether that could be seen.

    It cannot where the class inherits from one of another file.
    """
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    model = classes.get("TritonPythonModel")
    if model is None:
        raise invalid(
            f"{PROGRAM} has no class TritonPythonModel",
            expected="it at the top level of the file",
            found=", ".join(classes) or "no class",
            remedy="name the model's class so",
        )
    seen, foreign, waiting = set(), False, [model]
    while waiting:
        node = waiting.pop()
        seen.add(node.name)
        if any(is_execute(item) for item in node.body):
            return True
        for base in node.bases:
            known = classes.get(base.id) if isinstance(base, ast.Name) else None
            if known is None:
                foreign = foreign or not (isinstance(base, ast.Name) and base.id == "object")
            elif known.name not in seen:
                waiting.append(known)
    if foreign:
        return False
    raise invalid(
        "TritonPythonModel has no method `execute`",
        expected="def execute(self, requests)",
        found=", ".join(item.name for item in model.body if isinstance(item, ast.FunctionDef)) or "no method",
        remedy="add it, with one argument besides self",
    )


def is_execute(item: ast.stmt) -> bool:
    """Whether a statement of a class defines `execute(self, requests)`."""
    if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) or item.name != "execute":
        return False
    return len(item.args.posonlyargs) + len(item.args.args) == 2 or item.args.vararg is not None


def foreign_modules(trees: Mapping[str, ast.Module]) -> list[str]:
    """What the programs import that is neither Python's own, nor Triton's, nor a file of the model."""
    found = set()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    own = {name.split("/")[0].removesuffix(".py") for name in trees}
    return sorted(found - own - sys.stdlib_module_names - {MODULE_OF_TRITON})


def require_no_calls(trees: Mapping[str, ast.Module]) -> None:
    """Raises PodError where a program asks another model: this version would hang on what is not part of it."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            called = getattr(node, "func", None)
            if getattr(called, "attr", getattr(called, "id", "")) == "InferenceRequest":
                raise invalid(
                    f"{name}, line {getattr(node, 'lineno', '?')}, asks another model",
                    expected="a model that answers by itself",
                    found="InferenceRequest(…)",
                    remedy="release both as one: `source.format: repository`, `conversion.target: ensemble`",
                )


def try_import(folder: Path) -> None:
    """Runs the module-level code of the program, with a stand-in for Triton's module. Raises PodError."""
    sys.dont_write_bytecode = True
    stand_in: Any = types.ModuleType(MODULE_OF_TRITON)
    stand_in.__getattr__ = lambda name: type(name, (Exception,), {})
    sys.modules[MODULE_OF_TRITON] = stand_in
    sys.path.insert(0, str(folder))
    try:
        spec: Any = importlib.util.spec_from_file_location("model", folder / PROGRAM)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        execute = getattr(module.TritonPythonModel, "execute", None)
        if not callable(execute):
            raise AttributeError("TritonPythonModel has no method `execute`")
    except (Exception, SystemExit) as error:  # a stranger's program may raise whatever it likes
        raise invalid(
            f"{PROGRAM} cannot be imported",
            expected="module-level code that runs in this image",
            found=f"{type(error).__name__}: {first_line(error)}",
            remedy="mend it, use an image with what it imports, or leave out conversion.try_import",
        ) from error


# ---------------------------------------------------------------- the golden set


def check_golden(path: Path, name: str, inputs: tuple[Tensor, ...]) -> int:
    """Holds the golden set against the inputs; returns its rows. Raises PodError (GoldenSetError)."""
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
    problems = [text for tensor in inputs for text in column_problems(arrays.get(tensor.name), tensor)]
    rows = {tensor.name: len(arrays[tensor.name]) for tensor in inputs} if not problems else {}
    if len(set(rows.values())) > 1 or 0 in rows.values():
        problems.append("rows: " + ", ".join(f"{column} {count}" for column, count in rows.items()))
    if problems:
        raise PodError(
            "GoldenSetError",
            f"{name} does not fit the model's inputs",
            expected="for each input an array of its name, type and shape, all with as many rows",
            found="; ".join(problems),
            remedy="write the golden set again",
        )
    return next(iter(rows.values()))


def column_problems(array: Any, tensor: Tensor) -> list[str]:
    """What is wrong with the array of one input, in words; the first dimension is rows."""
    wanted = NUMPY_NAMES.get(tensor.datatype, "str")
    if array is None:
        return [f"no array {tensor.name!r}"]
    fits_type = array.dtype.kind in "US" if wanted == "str" else array.dtype.name == wanted
    fits_shape = array.ndim == len(tensor.shape) and all(
        size in (-1, actual) for size, actual in zip(tensor.shape[1:], array.shape[1:], strict=True)
    )
    if fits_type and fits_shape:
        return []
    return [
        f"{tensor.name!r} is {array.dtype.name} {list(array.shape)}, "
        f"not {wanted} {['rows', *tensor.shape[1:]]}"
    ]


# ---------------------------------------------------------------- the run


def check(workdir: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Checks what was fetched and lays out `repository/`; returns the payload. Raises PodError."""
    from google.protobuf import text_format

    folder = model_folder(workdir / "source")
    config = read_config(folder / CONFIG)
    require_python_backend(config)
    inputs, outputs = tensors_of(config, "input"), tensors_of(config, "output")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    programs = {name: read_program(folder / name) for name in files if name.endswith(".py")}
    if PROGRAM not in programs:
        remedy = f"put {PROGRAM} beside {CONFIG}"
        raise invalid(f"There is no {PROGRAM}", expected=PROGRAM, found=", ".join(files), remedy=remedy)
    execute_seen = require_model_class(programs[PROGRAM])
    require_no_calls(programs)
    say("check", f"{len(programs)} programs compile; {len(inputs)} inputs, {len(outputs)} outputs")
    rows = check_golden(workdir / "golden.npz", options.golden, inputs)
    if options.try_import:
        try_import(folder)
        say("import", "the program could be imported")
    config.name = options.model
    outside = beside_config(config)
    missing = sorted(outside - set(files))
    if missing:
        remedy = "add them, or take them out of the configuration"
        raise invalid(f"{CONFIG} names files that are not there", found=", ".join(missing), remedy=remedy)
    program = {
        "execute_seen": execute_seen,
        "imported": bool(options.try_import),
        "imports": foreign_modules(programs),
        "requirements": requirements(folder),
    }
    return {
        "repository": {
            "files": lay_out(folder, files, outside, workdir / "repository", options),
            "configs": {options.model: text_format.MessageToString(config)},
        },
        "signature": {
            "inputs": [tensor.to_json() for tensor in inputs],
            "outputs": [tensor.to_json() for tensor in outputs],
        },
        "program": program,
        "golden_rows": rows,
    }


def model_folder(folder: Path) -> Path:
    """Where the model's files lie: `folder`, or the only folder in it, as archives are often packed."""
    inner = list(folder.iterdir())
    return inner[0] if len(inner) == 1 and (inner[0] / PROGRAM).is_file() else folder


def requirements(folder: Path) -> list[str]:
    """The lines of requirements.txt that name something; the serving image must hold them."""
    path = folder / "requirements.txt"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def lay_out(
    folder: Path, files: list[str], outside: set[str], repository: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Moves the files, but for the configuration, to where they lie in the repository; says path, size, digest."""
    laid = []
    for name in (name for name in files if name != CONFIG):
        inner = name if name in outside else f"{options.version}/{name}"
        path = f"{options.model}/{inner}"
        target = repository / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / name).replace(target)
        laid.append({"path": path, "size_bytes": target.stat().st_size, "sha256": sha256(target)})
    return laid


def sha256(path: Path) -> str:
    """A file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_limited(act: Callable[[], dict[str, Any]], timeout_s: float) -> dict[str, Any]:
    """Runs `act` in a child process, so that a program that loops or crashes ends there and is reported."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=answer_over, args=(act, theirs))
    child.start()
    theirs.close()
    try:
        if not ours.poll(timeout_s):
            raise PodError(
                "TimedOutError",
                "The checks did not finish in time",
                expected=f"an end within {timeout_s:g} s",
                found="still at work",
                remedy="raise conversion.timeout_s in the release file, or give the pod more CPU",
            )
        answer = ours.recv()
    except EOFError:
        child.join()
        raise invalid(
            "The checks crashed on this model",
            found=f"exit code {child.exitcode}",
            remedy="raise conversion.resources.memory in the release file, or leave out conversion.try_import",
        ) from None
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
    packages = ("numpy", "protobuf", "tritonclient")
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in packages
    }


def execute(store: Store, options: argparse.Namespace) -> dict[str, Any]:
    """Downloads, checks, uploads; returns the payload, or raises PodError."""
    # A result of an earlier attempt must never be taken for this one's.
    store.delete(f"{options.destination}/result.json")
    with tempfile.TemporaryDirectory(prefix="convert-") as name:
        workdir = Path(name)
        (workdir / "source").mkdir()
        left_out = fetch(store, options, workdir / "source")
        store.download(options.golden, workdir / "golden.npz")
        payload = run_limited(lambda: check(workdir, options), options.timeout_s)
        for file in payload["repository"]["files"]:
            path = f"repository/{file['path']}"
            store.upload(workdir / path, f"{options.destination}/{path}")
        say("store", f"{options.destination}/repository, {len(payload['repository']['files'])} files")
    return {**payload, "left_out": left_out}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--source", required=True, type=s3_url, help=f"a folder, or an archive ({', '.join(ARCHIVES)}), in S3"
    )
    add("--golden", required=True, type=s3_url, help="the golden set, s3://BUCKET/….npz")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    add("--model", required=True, type=plain_name, help="the name under which it will be served")
    add("--version", required=True, type=int, help="the version under which it will be served")
    add("--max-size-mib", type=positive, default=2048.0, help="limit for all files together")
    add("--try-import", action="store_true", help="run the program's module-level code")
    add("--timeout-s", type=positive, default=600.0, help="limit for the checks, in seconds")
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
        failure = error
    except Exception as error:  # whatever it is, the result must tell
        traceback.print_exc()
        failure = unexpected(error)
    code = EXIT_CODES[failure.kind] if failure else 0
    result = {
        "outcome": "error" if failure else "pass",
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
