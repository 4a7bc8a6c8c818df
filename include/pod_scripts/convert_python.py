#!/usr/bin/env python3
"""Checks a model of Triton's Python backend and passes it through: model.py, its config.pbtxt, further files.

Nothing of the model is run unless `--try-import` asks for it: the program is compiled and read, and the signature
is taken from config.pbtxt. Reads the source (a folder or an archive) and the golden set from S3, writes the files as
they will lie in the model repository under DESTINATION/repository/, then `sbom.json` (the packages of this image)
and, last, `result.json`, which is written whatever happened, as long as S3 answers.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 75 try again later (S3 does not answer, time is up);
1 an error in this program.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway_pod.conversion.passthrough import Checked, pass_through, passthrough_parser
from slipway_pod.errors import first_line
from slipway_pod.models.tensors import Signature
from slipway_pod.models.triton_files import (
    config_text,
    declared_tensors,
    files_below,
    invalid,
    move,
    read_config,
    read_program,
)
from slipway_pod.program.progress import say
from slipway_rules.version_manifest import CONFIG_FILE

PROGRAM = "model.py"
MODULE_OF_TRITON = "triton_python_backend_utils"
# Triton's placeholder in a configuration for the model's own folder.
MODEL_FOLDER = "$$TRITON_MODEL_DIRECTORY/"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = passthrough_parser(__doc__, max_size_mib=2048.0)
    parser.add_argument("--try-import", action="store_true", help="run the program's module-level code")
    return parser.parse_args(argv)


def check(source: Path, repository: Path, options: argparse.Namespace) -> Checked:
    """Check what was fetched and lay out the repository."""
    folder = model_folder(source)
    config = read_config(folder / CONFIG_FILE, CONFIG_FILE, f"write it and put it in the folder of {PROGRAM}")
    require_python_backend(config)
    signature = Signature(
        declared_tensors(config, "input", CONFIG_FILE), declared_tensors(config, "output", CONFIG_FILE)
    )
    files = files_below(folder)
    programs = {name: read_program(folder / name, name) for name in files if name.endswith(".py")}
    if PROGRAM not in programs:
        remedy = f"put {PROGRAM} in the folder of {CONFIG_FILE}"
        raise invalid(f"There is no {PROGRAM}", expected=PROGRAM, found=", ".join(files), remedy=remedy)
    execute_seen = require_model_class(programs[PROGRAM])
    require_no_calls(programs)
    say("check", f"{len(programs)} programs compile; {len(signature.inputs)} inputs")
    if options.try_import:
        try_import(folder)
        say("import", "the program could be imported")
    config.name = options.model
    program = {
        "execute_seen": execute_seen,
        "imported": bool(options.try_import),
        "imports": foreign_modules(programs),
        "requirements": requirements(folder),
    }
    lay_out_model(folder, files, files_beside_config(config), repository / options.model, options.version)
    return Checked({options.model: config_text(config)}, signature, {"program": program})


def model_folder(folder: Path) -> Path:
    """Return where the model's files lie: `folder`, or the only folder in it, as archives are often packed."""
    inner = list(folder.iterdir())
    return inner[0] if len(inner) == 1 and (inner[0] / PROGRAM).is_file() else folder


def require_python_backend(config: Any) -> None:
    """Raise PodError (ModelInvalidError) unless the configuration is of a Python model."""
    program = config.default_model_filename or PROGRAM
    if config.backend == "python" and program == PROGRAM:
        return
    raise invalid(
        f"{CONFIG_FILE} is not that of a Python model",
        expected=f'backend: "python", and {PROGRAM} as its file',
        found=f'backend: "{config.backend}", platform: "{config.platform}", file {program}',
        remedy="correct it, or release the model with another `conversion.target`",
    )


# ---------------------------------------------------------------- the program


def require_model_class(tree: ast.Module) -> bool:
    """Raise PodError unless there is a class TritonPythonModel with `execute`; return whether that could be seen.

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
    """Return whether a statement of a class defines `execute(self, requests)`."""
    if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) or item.name != "execute":
        return False
    return len(item.args.posonlyargs) + len(item.args.args) == 2 or item.args.vararg is not None


def foreign_modules(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return what the programs import that is neither Python's own, nor Triton's, nor a file of the model."""
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
    """Raise PodError where a program asks another model: this version would hang on what is not part of it."""
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
    """Run the module-level code of the program, with a stand-in for Triton's module."""
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
    except (Exception, SystemExit) as error:  # the model's program may raise anything
        raise invalid(
            f"{PROGRAM} cannot be imported",
            expected="module-level code that runs in this image",
            found=f"{type(error).__name__}: {first_line(error)}",
            remedy="correct it, use an image with what it imports, or leave out conversion.try_import",
        ) from error


def requirements(folder: Path) -> list[str]:
    """Return the lines of requirements.txt that name something; the serving image must hold them."""
    path = folder / "requirements.txt"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


# ---------------------------------------------------------------- the repository


def files_beside_config(config: Any) -> set[str]:
    """Return the files that Triton looks for beside config.pbtxt and not in the version's folder."""
    labels = {tensor.label_filename for tensor in config.output if tensor.label_filename}
    parameters = {key: value.string_value for key, value in config.parameters.items()}
    environment = parameters.get("EXECUTION_ENV_PATH", "")
    own = {environment.removeprefix(MODEL_FOLDER)} if environment.startswith(MODEL_FOLDER) else set()
    return labels | own


def lay_out_model(folder: Path, files: list[str], outside: set[str], target: Path, version: int) -> None:
    """Move the files, but for the configuration, to where they lie in the model's folder."""
    missing = sorted(outside - set(files))
    if missing:
        remedy = "add them, or take them out of the configuration"
        raise invalid(
            f"{CONFIG_FILE} names files that are not there", found=", ".join(missing), remedy=remedy
        )
    for name in (name for name in files if name != CONFIG_FILE):
        move(folder / name, target / (name if name in outside else f"{version}/{name}"))


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    return pass_through(arguments(argv), check)


if __name__ == "__main__":
    raise SystemExit(main())
