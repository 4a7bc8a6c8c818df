"""Runs an ONNX model on requests in a folder: `run_model.py MODEL FOLDER first|all LIMIT`, in a process of its own.

A foreign model may end the process, take its time or all memory: who called sees that, and goes on. Each request is
FOLDER/NNNN.npz, its answer FOLDER/NNNN-answer.npz with the outputs by their place; of `first`, the requests are tried
until one is answered. What failed is FOLDER/failures.json. Standard library, NumPy and ONNX Runtime alone.

Exit codes: 0 done; 4 ONNX Runtime is not there; anything else: the model ended the process.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

NOT_INSTALLED = 4
_MEMORY_BYTES = 16 * 2**30
# Of all its threads together: a busy machine takes longer, and that is no fault of the model.
_COMPUTE_LIMIT_S = 300


def main(arguments: list[str]) -> int:
    """Run the requests; return the exit code."""
    path, folder, mode, limit = Path(arguments[0]), Path(arguments[1]), arguments[2], int(arguments[3])
    try:
        import numpy as np
        import onnxruntime
    except ImportError:
        return NOT_INSTALLED
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (_COMPUTE_LIMIT_S, _COMPUTE_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    failures: dict[str, str] = {}
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # a foreign runtime may raise anything
        failures["model"] = _reason(error)
        session = None
    for request in sorted(folder.glob("[0-9][0-9][0-9][0-9].npz")) if session is not None else ():
        try:
            arrays = _answered(session, request, limit)
            np.savez(request.with_name(f"{request.stem}-answer.npz"), **arrays)
        except Exception as error:
            failures[request.stem] = _reason(error)
            if mode == "all":
                break
        else:
            if mode == "first":
                break
    (folder / "failures.json").write_text(json.dumps(failures))
    return 0


def _answered(session: Any, request: Path, limit: int) -> dict[str, Any]:
    """Return the outputs of one request by their place; what is no tensor is left out."""
    import numpy as np

    with np.load(request, allow_pickle=False) as given:
        fed = {name: given[name] for name in given.files}
    fed = {name: one.astype(object) if one.dtype.kind == "U" else one for name, one in fed.items()}
    found = session.run(None, fed)
    arrays = {str(place): one for place, one in enumerate(found) if isinstance(one, np.ndarray)}
    arrays = {place: one.astype("U") if one.dtype == object else one for place, one in arrays.items()}
    values = sum(one.size for one in arrays.values())
    if values > limit:
        raise ValueError(f"answers of {values} values, more than {limit}")
    return arrays


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:500]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
