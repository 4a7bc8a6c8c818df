"""Lays the model of the wheel magika into S3 as a version to release, with golden inputs made of real files.

The inputs are files of Python's standard library: sources, and what the interpreter compiles them to. What
is to be answered follows from how a file came to be, not from what the model says of it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import py_compile
import sysconfig
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipway_digit_models.training import ObjectPutter

MODEL = "magika"
MODEL_NAME = "standard_v3_3"
RELEASE_FILE = Path(__file__).parent / "releases" / "magika.yaml"

_SOURCES = 48
_COMPILED = 16
_SMALLEST_BYTES = 2000


def model_folder() -> Path:
    """Where the wheel keeps the model. ModuleNotFoundError: it is not installed."""
    spec = importlib.util.find_spec(MODEL)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the test-only dependency `magika` is not installed")
    return Path(spec.origin).parent / "models" / MODEL_NAME


def golden_set() -> bytes:
    """The golden set as `.npz`: `bytes` INT32 [rows, 2048], `label` INT64 [rows], an index of the model's kinds."""
    config = json.loads((model_folder() / "config.min.json").read_text())
    kinds = config["target_labels_space"]
    sources = _library_sources()
    contents = [path.read_bytes() for path in sources] + _compiled(sources[:_COMPILED])
    labels = [kinds.index("python")] * len(sources) + [kinds.index("pythonbytecode")] * _COMPILED
    file = io.BytesIO()
    np.savez_compressed(
        file,
        bytes=np.stack([features(content, config) for content in contents]),
        label=np.array(labels, dtype=np.int64),
    )
    return file.getvalue()


def features(content: bytes, config: dict[str, Any]) -> npt.NDArray[np.int32]:
    """What the model is asked about a file: its first and last bytes without blanks, padded to fixed lengths.

    INT32 [beg_size + end_size], as `config` of the model says.
    """
    first = content[: config["block_size"]].lstrip()[: config["beg_size"]]
    last = content[-config["block_size"] :].rstrip()[-config["end_size"] :]
    values = np.full(config["beg_size"] + config["end_size"], config["padding_token"], dtype=np.int32)
    values[: len(first)] = np.frombuffer(first, dtype=np.uint8)
    values[len(values) - len(last) :] = np.frombuffer(last, dtype=np.uint8)
    return values


def upload_magika(s3: ObjectPutter, bucket: str, version: int = 1, *, start: str = "by_hand") -> None:
    """Lay the model and its golden set under `incoming/magika/VERSION/`, `ready.json` last."""
    files = {"model.onnx": (model_folder() / "model.onnx").read_bytes(), "golden.npz": golden_set()}
    ready = {
        "model": MODEL,
        "version": version,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "dataset_version": "python-standard-library",
        "trained_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "framework": f"magika {distribution_version(MODEL)}",
        "start": start,
    }
    for name, content in {**files, "ready.json": json.dumps(ready).encode()}.items():
        s3.put_object(Bucket=bucket, Key=f"incoming/{MODEL}/{version}/{name}", Body=content)


def _library_sources() -> list[Path]:
    """Modules of the standard library, by name, that are long enough to be recognized."""
    library = Path(sysconfig.get_path("stdlib"))
    return [path for path in sorted(library.glob("*.py")) if path.stat().st_size >= _SMALLEST_BYTES][
        :_SOURCES
    ]


def _compiled(sources: list[Path]) -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "compiled.pyc"
        contents = []
        for source in sources:
            py_compile.compile(str(source), cfile=str(target), doraise=True)
            contents.append(target.read_bytes())
        return contents
