"""Doubles of NVIDIA's programs, for machines without a GPU: they keep their arguments and do the least.

The "engine" of the double of the builder is the ONNX model itself, and the double of the runner answers with ONNX
Runtime: what is proved is the program around them, and nothing about TensorRT.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.python_programs import python_head

_NVIDIA_SMI = """#!/bin/sh
cat "{folder}/gpus"
"""
_POLYGRAPHY = """{head}import importlib.util, json, os, pathlib, sys, time
folder = pathlib.Path({folder!r})
options = {{}}
for argument in sys.argv[2:]:
    if argument.startswith("--"):
        key = argument
        options[key] = []
    else:
        options.setdefault(key if options else "", []).append(argument)
seen = {{"argv": ["polygraphy", *sys.argv[1:]], "batches": []}}
loader = options.get("--data-loader-script", [None])[0]
if loader:
    path, function = loader.split(":")
    spec = importlib.util.spec_from_file_location("loader", path)
    module = sys.modules["loader"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    seen["batches"] = [{{k: list(v.shape) for k, v in b.items()}} for b in getattr(module, function)()]
    pathlib.Path(options["--calibration-cache"][0]).write_text("scales")
(folder / "seen.json").write_text(json.dumps(seen))
mood = json.loads((folder / "mood.json").read_text())
if mood.get("hang"):
    time.sleep(600)
if mood.get("eat"):
    held = bytearray(mood["eat"] * 2**20)
if mood.get("fail"):
    print("[I] parsing")
    print("[!] " + mood["fail"])
    sys.exit(1)
timings = pathlib.Path(options["--save-timing-cache"][0])
timings.write_text((timings.read_text() if timings.exists() else "") + "timed,")
pathlib.Path(options["--output"][0]).write_bytes(pathlib.Path(sys.argv[2]).read_bytes())
"""
_COMMON = """
from pathlib import Path
class BytesFromPath:
    def __init__(self, path): self.path = path
    def __call__(self): return Path(self.path).read_bytes()
"""
_RUNNER = """
import json, pathlib
import numpy as np
folder = pathlib.Path({folder!r})
class EngineFromBytes:
    def __init__(self, load): self.load = load
    def __call__(self): return self.load()
class TrtRunner:
    def __init__(self, load): self.load, self.buffers = load, {{}}
    def activate(self):
        import onnxruntime
        self.session = onnxruntime.InferenceSession(self.load(), providers=["CPUExecutionProvider"])
        self.mood = json.loads((folder / "mood.json").read_text())
    def deactivate(self): del self.session
    def infer(self, feed_dict, copy_outputs_to_host):
        assert copy_outputs_to_host
        rows = {{len(array) for array in feed_dict.values()}}
        assert len(rows) == 1
        with (folder / "rows").open("a") as log:
            log.write(f"{{rows.pop()}}\\n")
        names = [output.name for output in self.session.get_outputs()]
        answers = self.session.run(names, feed_dict)
        for name, value in zip(names, answers):
            if value.dtype.kind == "f":
                value = value + np.float32(self.mood.get("offset", 0))
            # As the real runner does: the same memory for every answer of one size.
            buffer = self.buffers.setdefault((name, value.shape), np.empty_like(value))
            buffer[...] = value
        return {{name: self.buffers[(name, value.shape)] for name, value in zip(names, answers)}}
"""


@dataclass(frozen=True)
class TensorRtDouble:
    """A folder with doubles of nvidia-smi, polygraphy and the Python modules polygraphy and tensorrt."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, python: Path) -> TensorRtDouble:
        """Writes the doubles; programs run with the interpreter `python`."""
        double = cls(folder)
        backend = folder / "site" / "polygraphy" / "backend"
        backend.mkdir(parents=True)
        (folder / "bin").mkdir()
        write_program(folder / "bin" / "nvidia-smi", _NVIDIA_SMI.format(folder=folder))
        write_program(
            folder / "bin" / "polygraphy", _POLYGRAPHY.format(folder=str(folder), head=python_head(python))
        )
        (backend / "common.py").write_text(_COMMON)
        (backend / "trt.py").write_text(_RUNNER.format(folder=str(folder)))
        (folder / "site" / "tensorrt.py").write_text('__version__ = "10.13.2.6"\n')
        double.set_gpus("NVIDIA L4, 8.9, 580.65.06")
        double.set_mood()
        return double

    def set_mood(self, **mood: Any) -> None:
        """How the doubles behave from now on: hang, eat=MiB, fail=TEXT, offset=NUMBER; nothing: well."""
        (self.folder / "mood.json").write_text(json.dumps(mood))
        (self.folder / "rows").unlink(missing_ok=True)
        (self.folder / "seen.json").unlink(missing_ok=True)

    def set_gpus(self, *lines: str) -> None:
        """What nvidia-smi answers."""
        (self.folder / "gpus").write_text("".join(f"{line}\n" for line in lines))

    @property
    def seen(self) -> dict[str, Any]:
        """The builder's command line, and the sizes of the calibration batches that it read."""
        found: dict[str, Any] = json.loads((self.folder / "seen.json").read_text())
        return found

    @property
    def rows(self) -> list[int]:
        """The batch size of each inference on the engine."""
        return [int(line) for line in (self.folder / "rows").read_text().split()]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with the doubles found first."""
        path = os.pathsep.join([str(self.folder / "bin"), base["PATH"]])
        return {**base, "PATH": path, "PYTHONPATH": str(self.folder / "site")}


def write_program(path: Path, text: str) -> None:
    """Writes an executable file."""
    path.write_text(text)
    path.chmod(0o755)


_TOOL = """{head}import json, pathlib, sys
folder = pathlib.Path({folder!r})
with (folder / "commands").open("a") as log:
    log.write(json.dumps([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]) + "\\n")
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
out = pathlib.Path(options["--output_dir"])
out.mkdir()
if {builds}:
    assert (pathlib.Path(options["--checkpoint_dir"]) / "config.json").exists()
    (out / "config.json").write_text("{{}}")
    for rank in range(int(options["--workers"])):
        (out / f"rank{{rank}}.engine").write_text(f"engine {{rank}}")
    pathlib.Path(options["--output_timing_cache"]).write_text("timed")
else:
    assert (pathlib.Path(options["--model_dir"]) / "model.safetensors").exists()
    (out / "config.json").write_text("{{}}")
"""


@dataclass(frozen=True)
class TensorRtLlmDouble:
    """A folder with doubles of nvidia-smi, trtllm-build and convert_checkpoint.py, and small templates."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, python: Path) -> TensorRtLlmDouble:
        """Writes the doubles; programs run with the interpreter `python`."""
        (folder / "bin").mkdir()
        write_program(folder / "bin" / "nvidia-smi", _NVIDIA_SMI.format(folder=folder))
        write_program(
            folder / "bin" / "trtllm-build",
            _TOOL.format(folder=str(folder), head=python_head(python), builds=True),
        )
        script = folder / "examples" / "models" / "core" / "llama" / "convert_checkpoint.py"
        script.parent.mkdir(parents=True)
        write_program(script, _TOOL.format(folder=str(folder), head=python_head(python), builds=False))
        (folder / "gpus").write_text("NVIDIA L40S, 8.9, 580.65.06\n" * 2)
        return cls(folder)

    @property
    def commands(self) -> list[list[str]]:
        """The command lines of the tools, in order."""
        return [json.loads(line) for line in (self.folder / "commands").read_text().splitlines()]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with the doubles found first."""
        return {**base, "PATH": os.pathsep.join([str(self.folder / "bin"), base["PATH"]])}
