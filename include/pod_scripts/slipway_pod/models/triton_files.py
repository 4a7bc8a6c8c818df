"""The files that Triton reads of a model: config.pbtxt and programs, read here without running them."""

from __future__ import annotations

import ast
import platform
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError, first_line
from slipway_pod.models.tensors import Tensor


def invalid(what: str, **details: str) -> PodError:
    """Return the error for a model that must be corrected."""
    return PodError("ModelInvalidError", what, **details)


def read_config(path: Path, name: str, if_missing: str) -> Any:
    """Return the ModelConfig in a config.pbtxt.

    :param name: what an error calls the file.
    :param if_missing: the remedy where there is no such file.
    :raises PodError: of kind ModelInvalidError.
    """
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    if not path.is_file():
        expected = "it with `input` and `output`: nothing is loaded or run to find them out"
        raise invalid(f"There is no {name}", expected=expected, found="none", remedy=if_missing)
    try:
        # A comment may be in any encoding, as it may for Triton; no field takes what is not UTF-8.
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        return text_format.Parse(text, model_config_pb2.ModelConfig())
    except (text_format.ParseError, UnicodeError) as error:
        raise invalid(
            f"{name} cannot be read",
            expected="a text of Triton's ModelConfig",
            found=first_line(error),
            remedy="correct that line",
        ) from error


def declared_tensors(config: Any, kind: str, name: str) -> tuple[Tensor, ...]:
    """Return the tensors under `input` or `output` (`kind`) of a configuration called `name`, with the batch dimension.

    :raises PodError: of kind ModelInvalidError.
    """
    from tritonclient.grpc import model_config_pb2

    batch = (-1,) if config.max_batch_size > 0 else ()
    found = []
    for tensor in getattr(config, kind):
        datatype = model_config_pb2.DataType.Name(tensor.data_type).removeprefix("TYPE_")
        if not tensor.name or datatype == "INVALID" or not tensor.dims:
            raise invalid(
                f"An {kind} in {name} is not complete",
                expected="`name`, `data_type` and `dims`",
                found=" ".join(str(tensor).split()) or "nothing",
                remedy="declare it in full",
            )
        datatype = "BYTES" if datatype == "STRING" else datatype
        optional = kind == "input" and tensor.optional
        found.append(Tensor(tensor.name, datatype, (*batch, *tensor.dims), optional))
    if not found:
        raise invalid(
            f"{name} declares no {kind}",
            expected=f"every {kind} with `name`, `data_type` and `dims`",
            found="none",
            remedy="declare them: nothing is loaded or run to find them out",
        )
    return tuple(found)


def config_text(config: Any) -> str:
    """Return a ModelConfig as its text."""
    from google.protobuf import text_format

    return str(text_format.MessageToString(config, use_short_repeated_primitives=True))


def read_program(path: Path, name: str) -> ast.Module:
    """Parse and compile a program called `name`, without running it.

    :raises PodError: of kind ModelInvalidError.
    """
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
    return tree


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files below a folder, relative to it, in order."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def move(source: Path, target: Path) -> None:
    """Move a file to where its folder need not be there yet."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
