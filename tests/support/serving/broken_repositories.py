"""Repositories that must be refused, each with one thing that is wrong and how the refusal puts it."""

from __future__ import annotations

from tests.support.serving.ensembles import PROGRAM, TENSORS, ensemble_files, python_files

Change = tuple[str, str, str]
"""A file's path, the text in it, and what replaces it."""


def changed(*changes: Change) -> dict[str, bytes]:
    """Return the ensemble with pieces of its texts replaced."""
    files = ensemble_files()
    for path, old, new in changes:
        assert old in files[path].decode(), f"{old} is not in {path}"
        files[path] = files[path].replace(old.encode(), new.encode())
    return files


def parts(model: str) -> dict[str, bytes]:
    """Return the files of one member, by their paths in its folder."""
    return {
        path.partition("/")[2]: content
        for path, content in ensemble_files().items()
        if path.startswith(f"{model}/")
    }


def ensemble_of(model: str) -> bytes:
    """Return the configuration of an ensemble with one step."""
    maps = 'input_map { key: "x" value: "x" } output_map { key: "y" value: "y" }'
    steps = f'ensemble_scheduling {{ step [ {{ model_name: "{model}" model_version: -1 {maps} }} ] }}'
    return f'platform: "ensemble"\nmax_batch_size: 16\n{steps}\n{TENSORS}'.encode()


SCALE, LOOKUP, TOP = (f"{name}/config.pbtxt" for name in ("scale", "lookup", "prices"))
# Each is one thing that is wrong with the steps, and how the refusal puts it.
MISFITS: dict[str, tuple[Change, str]] = {
    "stranger": ((TOP, '"lookup"', '"tabel"'), "'prices' calls the model 'tabel', which is not in the repository"),
    "input not there": ((TOP, 'key: "x" value: "scaled"', 'key: "z" value: "scaled"'), "maps the input 'z'"),
    "output not there": ((TOP, 'key: "y" value: "scaled"', 'key: "z" value: "scaled"'), "maps the output 'z'"),
    "nothing writes": ((TOP, 'key: "x" value: "scaled"', 'key: "x" value: "scald"'), "nothing writes 'scald'"),
    "written twice": ((TOP, 'key: "y" value: "y"', 'key: "y" value: "scaled"'), "is written by"),
    "datatype": ((LOOKUP, 'name: "x" data_type: TYPE_FP32', 'name: "x" data_type: TYPE_INT32'), "INT32[-1, 2]"),
    "shape": ((SCALE, 'name: "y" data_type: TYPE_FP32 dims: [ 2 ]', 'name: "y" data_type: TYPE_FP32 dims: [ 3 ]'),
              "'scaled' is FP32[-1, 3] from step 1 (scale) and FP32[-1, 2] for step 2 (lookup)"),
    "rank": ((SCALE, 'name: "y" data_type: TYPE_FP32 dims: [ 2 ]',
              'name: "y" data_type: TYPE_FP32 dims: [ 2, 1 ]'), "FP32[-1, 2, 1]"),
    "smaller batches": ((SCALE, "max_batch_size: 16", "max_batch_size: 4"), "takes batches of 4, the ensemble of 16"),
    # Triton loads this one, and fails every batch of more than one row.
    "no batches": ((LOOKUP, "max_batch_size: 16", "max_batch_size: 0"), "FP32[2] for step 2 (lookup)"),
    "version not there": ((TOP, "model_version: -1", "model_version: 3"), "wants version 3, but version 1"),
    "top's output": ((TOP, 'name: "y"', 'name: "q"'), "nothing writes 'q'"),
}  # fmt: skip


# Each replaces or removes files of the ensemble.
NO_UNITS: dict[str, tuple[dict[str, bytes | None], str]] = {
    "idle member": (
        {f"idle/{path}": content for path, content in parts("scale").items()},
        "does not use all",
    ),
    "empty member": ({"lookup/1/model.onnx": None}, "'lookup' has 0 versions with files"),
    "two versions": ({"lookup/2/model.onnx": b"x"}, "'lookup' has 2 versions with files"),
    "no configuration": ({"lookup/config.pbtxt": None}, "There is no lookup/config.pbtxt"),
    "no ensemble": ({"prices/config.pbtxt": None}, "which model clients should call"),
    "two ensembles": (
        {"prices/config.pbtxt": None, "a/config.pbtxt": ensemble_of("scale"), "b/config.pbtxt": ensemble_of("lookup")},
        "the ensembles a, b",
    ),
    "a circle": (
        {"prices/config.pbtxt": ensemble_of("b"), "b/config.pbtxt": ensemble_of("prices")},
        "prices → b → prices",
    ),
    "a member without tensors": (
        {"scale/config.pbtxt": b'backend: "python" max_batch_size: 16'},
        "declares no input",
    ),
    "another name": ({"scale/config.pbtxt": b'name: "skale"'}, "is that of another model"),
    "not Python": ({"scale/1/model.py": b"def f(:\n"}, "scale/1/model.py is not valid Python"),
    "a name in the code": (
        {"scale/1/model.py": f"{PROGRAM}\npb_utils.InferenceRequest(model_name='lookup')\n".encode()},
        "calls a model by a name in its code",
    ),
    "no repository": (
        dict.fromkeys(ensemble_files()) | {"notes.txt": b"x"},
        "There is no model in the repository",
    ),
}  # fmt: skip


_CLASS = "class TritonPythonModel:\n"
# Each replaces or adds files of the Python model.
BAD_MODELS: dict[str, tuple[dict[str, bytes], str]] = {
    "no configuration": ({"config.pbtxt": b""}, "is not that of a Python model"),
    "another backend": ({"config.pbtxt": b'backend: "onnxruntime"'}, 'backend: "python"'),
    "no inputs": ({"config.pbtxt": b'backend: "python"'}, "declares no input"),
    "no such field": ({"config.pbtxt": b'backend: "python"\nmax_batch: 3'}, "max_batch"),
    "half an input": (
        {"config.pbtxt": b'backend: "python"\ninput [ { name: "x" data_type: TYPE_FP32 } ]'},
        "is not complete",
    ),
    "no program at all": ({"model.py": b""}, "has no class TritonPythonModel"),
    "not Python": ({"model.py": b"class TritonPythonModel(:\n"}, "line 1"),
    "a helper that is not Python": ({"helper.py": b"def f(:\n"}, "helper.py is not valid Python"),
    "a return outside": ({"model.py": b"return 3\n"}, "outside function"),
    "another class": ({"model.py": b"class Model:\n  def execute(self, requests): ...\n"}, "found': 'Model'"),
    "no execute": ({"model.py": f"{_CLASS}  def run(self, requests): ...\n".encode()}, "found': 'run'"),
    "execute without requests": ({"model.py": f"{_CLASS}  def execute(self): ...\n".encode()}, "execute"),
    "calls another model": (
        {"model.py": (PROGRAM + "\npb_utils.InferenceRequest(model_name='other')\n").encode()},
        "asks another model",
    ),
}


def without_unit(name: str) -> dict[str, bytes]:
    """Return the ensemble's files with a change of `NO_UNITS`."""
    changes = NO_UNITS[name][0]
    return {path: one for path, one in {**ensemble_files(), **changes}.items() if one is not None}


def bad_model(name: str) -> dict[str, bytes]:
    """Return the Python model's files with a change of `BAD_MODELS`."""
    return {**python_files(), **BAD_MODELS[name][0]}
