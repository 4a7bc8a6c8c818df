"""Whether a load that failed is the version's fault: would this pod's server load any model at all?"""

from __future__ import annotations

import base64
import contextlib
import re
from pathlib import Path

from slipway_pod.errors import PodError
from slipway_pod.program.progress import say
from slipway_pod.smoke_test.server import OwnServer

# As long as the slowest platform that works may take for a model of one node.
LOAD_S = 60.0
NAME = "slipway_known_good"
_CONFIG = """
name: "%s"
backend: "%s"
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
_PYTHON = b"""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", one.inputs()[0].as_numpy())]) for one in requests]
"""
# One node, Identity, from x to y: one number each.
_ONNX = base64.b64decode(
    "CAc6NwoQCgF4EgF5IghJZGVudGl0eRIBZ1oPCgF4EgoKCAgBEgQKAggBYg8KAXkSCgoICAESBAoCCAFCBAoAEA0="
)
# The file of a model that loads wherever its backend works. Of other backends none is that small.
_KNOWN_GOOD = {"onnxruntime": ("model.onnx", _ONNX), "python": ("model.py", _PYTHON)}
_BACKEND = re.compile(r'^\s*(?:backend|platform)\s*:\s*"([A-Za-z0-9_]+)"', re.MULTILINE)
_PLATFORMS = {"onnxruntime_onnx": "onnxruntime"}


def require_working_platform(
    repository: Path, log: Path, folder: Path, *, limit_s: float, failed: str
) -> None:
    """Load a model that is known to be good, on a new server, with each backend of the version that has one.

    :param failed: what came of the version's own load.
    :raises PodError: that model does not load either: what failed is the platform, and nothing is said of the version.
    """
    for backend in sorted(_backends(repository) & set(_KNOWN_GOOD)):
        known_good = folder / f"known-good-{backend}"
        file, content = _KNOWN_GOOD[backend]
        (known_good / NAME / "1").mkdir(parents=True, exist_ok=True)
        (known_good / NAME / "config.pbtxt").write_text(_CONFIG % (NAME, backend), encoding="utf-8")
        (known_good / NAME / "1" / file).write_bytes(content)
        found, lines = _load(known_good, log, max(1.0, min(LOAD_S, limit_s)))
        say("platform", f"a known-good model of the backend {backend}: {found or 'loaded'}")
        if found:
            raise PodError(
                "UserError",
                f"Triton's backend {backend!r} loads no model in this pod",
                expected="that a model of one node, which is known to be good, loads",
                found="; ".join([found, *lines[-2:], f"the version's own load {failed}"])[:1500],
                remedy="the version was not judged: fix the pod's image, node or limits, then release it again",
            )


def _backends(repository: Path) -> set[str]:
    """Return the backends that the configurations of a repository name."""
    named: set[str] = set()
    for path in repository.glob("*/config.pbtxt"):
        with contextlib.suppress(OSError):
            named.update(_BACKEND.findall(path.read_text(encoding="utf-8", errors="replace")))
    return {_PLATFORMS.get(name, name) for name in named}


def _load(repository: Path, log: Path, limit_s: float) -> tuple[str, list[str]]:
    """Return what went wrong, empty if nothing did, and the lines of the log that tell most."""
    with OwnServer(repository, log, start_timeout_s=limit_s) as server:
        since = server.log_size()
        try:
            reply = server.call("POST", f"/v2/repository/models/{NAME}/load", b"{}", timeout_s=limit_s)
            found = "" if reply.status == 200 else f"HTTP {reply.status}: {reply.error}"
        except TimeoutError:
            found = f"no answer within {limit_s:g} s"
        except OSError as error:
            found = server.ended(2.0) or f"no answer: {type(error).__name__}"
        return found, server.telling_lines(since)
