#!/usr/bin/env python3
"""Checks an ensemble and its members as one unit and passes them through: a whole Triton model repository.

Every step must name a member, fit its tensors by name, datatype and shape, and leave nothing unused; no member may
be missing, empty, superfluous or in more than one version. No program is run: signatures are those of the
config.pbtxt files. Reads the repository (a folder or an archive) and the golden set from S3, writes the files as they
will lie in the published repository under DESTINATION/repository/ (the ensemble under the released model's name, all
in the released version), and, last, DESTINATION/result.json, which is written whatever happened, as long as S3
answers. Versions are pinned by whoever publishes it, from the configurations in the result.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 75 try again later (S3 does not answer, time is up);
1 an error in this program.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.metadata
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
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
READY = "ready.json"
# A parameter whose key ends so tells a program which model to call; what it names is a member, too.
CALLED_BY_PARAMETER = "model_name"
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


# ---------------------------------------------------------------- the members


@dataclass(frozen=True)
class Tensor:
    """One input or output; the shape has the batch dimension, and -1 where a size may vary."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def __str__(self) -> str:
        return f"{self.datatype}{list(self.shape)}"


@dataclass(frozen=True)
class Member:
    """One model of the repository. `files` are relative to its folder; `number` is its version's folder, if any."""

    name: str
    config: Any
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    files: tuple[str, ...]
    number: int | None

    @property
    def is_ensemble(self) -> bool:
        """Whether it only passes tensors between others."""
        return bool(self.config.HasField("ensemble_scheduling"))

    def calls(self, names: Iterable[str]) -> list[str]:
        """The members that it calls: by its steps, or by name in its parameters."""
        steps = [step.model_name for step in self.config.ensemble_scheduling.step]
        told = [
            value.string_value
            for key, value in self.config.parameters.items()
            if key.endswith(CALLED_BY_PARAMETER) and value.string_value in set(names)
        ]
        return list(dict.fromkeys([*steps, *told]))


def read_members(folder: Path) -> dict[str, Member]:
    """All models of a repository by name. Raises PodError (ModelInvalidError)."""
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if not names:
        raise invalid(
            "There is no model in the repository",
            expected=f"a folder for each model with its {CONFIG}",
            found=", ".join(sorted(path.name for path in folder.iterdir())) or "nothing",
            remedy="upload the repository as Triton reads it",
        )
    return {name: read_member(folder / name) for name in names}


def read_member(folder: Path) -> Member:
    """One model. Raises PodError (ModelInvalidError) for what Triton, or a release, could not do with it."""
    config = read_config(folder)
    if config.name not in ("", folder.name):
        raise invalid(
            f"{folder.name}/{CONFIG} is that of another model",
            expected=f'name: "{folder.name}", or none',
            found=f'name: "{config.name}"',
            remedy="name folder and model alike",
        )
    config.name = folder.name
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    numbers = sorted(
        {int(name.split("/")[0]) for name in files if name.split("/")[0].isdecimal() and "/" in name}
    )
    is_ensemble = config.HasField("ensemble_scheduling")
    if len(numbers) > 1 or (not numbers and not is_ensemble):
        raise invalid(
            f"{folder.name!r} has {len(numbers)} versions with files",
            expected="exactly one folder named by a number, since a release has one version of each member",
            found=", ".join(map(str, numbers)) or "no such folder with a file in it",
            remedy="leave the one that belongs to this ensemble",
        )
    member = Member(
        folder.name,
        config,
        tensors_of(config, "input"),
        tensors_of(config, "output"),
        tuple(name for name in files if name != CONFIG),
        numbers[0] if numbers else None,
    )
    for name in (name for name in member.files if name.endswith(".py")):
        check_program(folder / name, f"{folder.name}/{name}")
    return member


def read_config(folder: Path) -> Any:
    """Triton's ModelConfig of a model. Raises PodError (ModelInvalidError)."""
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    path, name = folder / CONFIG, f"{folder.name}/{CONFIG}"
    if not path.is_file():
        raise invalid(
            f"There is no {name}",
            expected="it with `input` and `output`, since no model is loaded to find them out",
            found="none",
            remedy="write it, or take the folder out if it is no model",
        )
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise invalid(
            f"{name} cannot be read",
            expected="a text of Triton's ModelConfig",
            found=first_line(error),
            remedy="correct that line",
        ) from error


def tensors_of(config: Any, kind: str) -> dict[str, Tensor]:
    """The inputs or outputs that a configuration declares. Raises PodError (ModelInvalidError)."""
    from tritonclient.grpc import model_config_pb2

    batch = (-1,) if config.max_batch_size > 0 else ()
    found = {}
    for tensor in getattr(config, kind):
        datatype = model_config_pb2.DataType.Name(tensor.data_type).removeprefix("TYPE_")
        if not tensor.name or datatype == "INVALID" or not tensor.dims:
            raise invalid(
                f"An {kind} of {config.name!r} is not complete",
                expected="`name`, `data_type` and `dims`",
                found=" ".join(str(tensor).split()) or "nothing",
                remedy=f"declare it in full in {config.name}/{CONFIG}",
            )
        datatype = "BYTES" if datatype == "STRING" else datatype
        optional = bool(getattr(tensor, "optional", False))
        found[tensor.name] = Tensor(tensor.name, datatype, (*batch, *tensor.dims), optional)
    if not found:
        raise invalid(
            f"{config.name}/{CONFIG} declares no {kind}",
            expected=f"every {kind} with `name`, `data_type` and `dims`",
            found="none",
            remedy="declare them: nothing is loaded or run to find them out",
        )
    return found


def check_program(path: Path, name: str) -> None:
    """Compiles a member's program without running it. Raises PodError (ModelInvalidError)."""
    try:
        content = path.read_bytes()
        tree = ast.parse(content, name)
        compile(content, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        raise invalid(
            f"{name} is not valid Python {platform.python_version()}",
            expected="a program that compiles",
            found=f"{line}{first_line(error)}",
            remedy="correct it",
        ) from error
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        named = [word.value for word in node.keywords if word.arg == CALLED_BY_PARAMETER]
        if called == "InferenceRequest" and named and isinstance(named[0], ast.Constant):
            raise invalid(
                f"{name}, line {node.lineno}, calls a model by a name in its code",
                expected=f"a name that it takes from a parameter whose key ends in `{CALLED_BY_PARAMETER}`",
                found=repr(named[0].value),
                remedy="add the parameter to config.pbtxt: members have names of their own on each server",
            )


# ---------------------------------------------------------------- the unit


def find_top(members: Mapping[str, Member], model: str) -> str:
    """The ensemble that clients address: the one named `model`, or the only one that no other model calls."""
    called = {name for member in members.values() for name in member.calls(members)}
    tops = [name for name, member in members.items() if member.is_ensemble and name not in called]
    if model in members:
        tops = [model] if members[model].is_ensemble else []
    if len(tops) != 1:
        raise invalid(
            "It is not clear which model clients shall address",
            expected=f"an ensemble named {model!r}, or exactly one that no other model calls",
            found=f"the ensembles {', '.join(tops)}" if tops else "none",
            remedy=f"name it {model!r}, folder and configuration",
        )
    return tops[0]


def require_unit(members: Mapping[str, Member], top: str) -> None:
    """Raises PodError unless `top` and all that it calls are exactly what is there, and nobody calls in a circle."""
    reached: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name not in members:
            raise invalid(
                f"{above[-1]!r} calls {name!r}, which is not in the repository",
                expected=f"one of {', '.join(sorted(members))}",
                found=name or "no name",
                remedy="add the member, or correct the step",
            )
        if name in above:
            raise invalid(
                "The models call each other in a circle",
                expected="an order in which each only needs those before it",
                found=" → ".join([*above[above.index(name) :], name]),
                remedy="take one of these steps out",
            )
        if name not in reached:
            for called in members[name].calls(members):
                visit(called, (*above, name))
            reached.append(name)

    visit(top, ())
    idle = sorted(members.keys() - set(reached))
    if idle:
        raise invalid(
            f"{top!r} does not use all that is in the repository",
            expected="the ensemble and its members, nothing else",
            found=", ".join(idle),
            remedy="take these models out, or release them by themselves",
        )


def require_fitting_steps(members: Mapping[str, Member]) -> int:
    """Raises PodError, which lists the misfits, unless all tensors of all ensembles fit; returns how many."""
    problems, count = [], 0
    for member in (member for member in members.values() if member.is_ensemble):
        tensors, found = flow_of(member, members)
        count += len(tensors)
        problems += [f"{member.name}: {text}" for text in [*found, *tensor_problems(tensors)]]
    if problems:
        more = f" and {len(problems) - 8} more" if len(problems) > 8 else ""
        raise invalid(
            "The steps do not fit the members",
            expected="each tensor written once, read at least once, of one datatype and of shapes that agree",
            found="; ".join(problems[:8]) + more,
            remedy="correct the maps, or the members' configurations",
        )
    return count


@dataclass
class Flow:
    """Who writes and who reads one tensor of an ensemble, each with the tensor as that side declares it."""

    writers: list[tuple[str, Tensor]] = field(default_factory=list)
    readers: list[tuple[str, Tensor]] = field(default_factory=list)


def flow_of(ensemble: Member, members: Mapping[str, Member]) -> tuple[dict[str, Flow], list[str]]:
    """The tensors of an ensemble by name, and in words what in its steps fits no member."""
    flows: defaultdict[str, Flow] = defaultdict(Flow)
    problems = []
    for name, tensor in ensemble.inputs.items():
        flows[name].writers.append(("the ensemble's input", tensor))
    for name, tensor in ensemble.outputs.items():
        flows[name].readers.append(("the ensemble's output", tensor))
    limit = ensemble.config.max_batch_size
    for position, step in enumerate(ensemble.config.ensemble_scheduling.step, 1):
        member, place = members[step.model_name], f"step {position} ({step.model_name})"
        problems += [f"{place} {text}" for text in step_problems(step, member, limit)]
        for inner, outer in step.input_map.items():
            if inner in member.inputs:
                flows[outer].readers.append((place, member.inputs[inner]))
        for inner, outer in step.output_map.items():
            if inner in member.outputs:
                flows[outer].writers.append((place, member.outputs[inner]))
    return dict(flows), problems


def step_problems(step: Any, member: Member, limit: int) -> list[str]:
    """What of a step fits not the member that it calls; `limit` is the ensemble's max_batch_size."""
    needed = {name for name, tensor in member.inputs.items() if not tensor.optional}
    found = [
        f"maps the input {name!r}, which it lacks" for name in step.input_map if name not in member.inputs
    ]
    found += [f"leaves its input {name!r} without a tensor" for name in sorted(needed - set(step.input_map))]
    found += [
        f"maps the output {name!r}, which it lacks" for name in step.output_map if name not in member.outputs
    ]
    if not step.output_map:
        found.append("gives no output")
    if step.model_version > 0 and member.number is not None and step.model_version != member.number:
        found.append(f"wants version {step.model_version}, but version {member.number} is there")
    if step.model_namespace:
        found.append("names a namespace, which a repository of its own does not need")
    own = member.config.max_batch_size
    if 0 < own < limit:
        found.append(f"takes batches of {own}, the ensemble of {limit}")
    return found


def tensor_problems(flows: Mapping[str, Flow]) -> list[str]:
    """What is wrong with the tensors of an ensemble, in words."""
    found = []
    for name, flow in sorted(flows.items()):
        if not flow.writers:
            found.append(f"nothing writes {name!r}, which {flow.readers[0][0]} reads")
        elif len(flow.writers) > 1:
            found.append(f"{name!r} is written by {' and by '.join(place for place, _ in flow.writers)}")
        elif not flow.readers:
            found.append(f"nothing reads {name!r}, which {flow.writers[0][0]} gives")
        for writer, given in flow.writers[:1]:
            found += [
                f"{name!r} is {given} from {writer} and {taken} for {reader}"
                for reader, taken in flow.readers
                if not agree(given, taken)
            ]
    return found


def agree(one: Tensor, other: Tensor) -> bool:
    """Whether two declarations of a tensor can be of the same one; -1 agrees with every size."""
    return (
        one.datatype == other.datatype
        and len(one.shape) == len(other.shape)
        and all(a == b or -1 in (a, b) for a, b in zip(one.shape, other.shape, strict=True))
    )


# ---------------------------------------------------------------- the golden set


def check_golden(path: Path, name: str, inputs: Iterable[Tensor]) -> int:
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
    inputs = list(inputs)
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

    folder = repository_folder(workdir / "source")
    members = read_members(folder)
    top = find_top(members, options.model)
    require_unit(members, top)
    tensors = require_fitting_steps(members)
    say("check", f"{len(members)} models, {tensors} tensors between them fit")
    ensemble = members[top]
    rows = check_golden(workdir / "golden.npz", options.golden, ensemble.inputs.values())
    ensemble.config.name = options.model
    names = {name: options.model if name == top else name for name in members}
    files = [
        file
        for name, member in members.items()
        for file in lay_out(member, folder / name, workdir / "repository" / names[name], options.version)
    ]
    return {
        "repository": {
            "files": files,
            "configs": {
                names[name]: text_format.MessageToString(member.config) for name, member in members.items()
            },
        },
        "signature": {
            "inputs": [tensor.to_json() for tensor in ensemble.inputs.values()],
            "outputs": [tensor.to_json() for tensor in ensemble.outputs.values()],
        },
        "golden_rows": rows,
    }


def repository_folder(folder: Path) -> Path:
    """Where the models' folders lie: `folder`, or the only folder in it, as archives are often packed."""
    inner = [path for path in folder.iterdir() if path.is_dir()]
    return inner[0] if len(inner) == 1 and not (inner[0] / CONFIG).exists() else folder


def lay_out(member: Member, source: Path, target: Path, version: int) -> list[dict[str, Any]]:
    """Moves a member's files to where they lie in the published repository; says path, size and digest of each."""
    laid = []
    for name in member.files:
        first, _, rest = name.partition("/")
        is_versioned = rest and member.number is not None and first.isdecimal()
        place = target / (f"{version}/{rest}" if is_versioned else name)
        place.parent.mkdir(parents=True, exist_ok=True)
        (source / name).replace(place)
        path = str(place.relative_to(target.parent))
        laid.append({"path": path, "size_bytes": place.stat().st_size, "sha256": sha256(place)})
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
            remedy="raise conversion.resources.memory in the release file",
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
    add("--model", required=True, type=plain_name, help="the name under which clients address the ensemble")
    add("--version", required=True, type=int, help="the version under which all of it will be served")
    add("--max-size-mib", type=positive, default=8192.0, help="limit for all files together")
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
