"""The GPU of this pod: an engine runs only on the kind of GPU that it was built on."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from slipway_pod.errors import PodError, first_line

QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
LIMIT_S = 60
REMEDY = (
    "ask for `conversion.resources.gpu`, and choose GPU nodes by conversion.node_selector and tolerations"
)


@dataclass(frozen=True)
class Gpu:
    """What nvidia-smi says of a GPU."""

    name: str
    compute_capability: str
    driver: str


def read_gpu() -> Gpu:
    """Return the pod's GPU, or what its GPUs have in common.

    :raises PodError: there is none, or several kinds.
    """
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        lines = [line.split(",") for line in done.stdout.splitlines() if line.strip()]
        gpus = {Gpu(*(part.strip() for part in line)) for line in lines}
        if not gpus:
            raise ValueError("nvidia-smi lists none")
    except (OSError, subprocess.SubprocessError, TypeError, ValueError) as error:
        found = first_line(error)
        raise PodError(
            "UserError", "This pod has no GPU", expected="one", found=found, remedy=REMEDY
        ) from error
    if len(gpus) > 1:
        kinds = ", ".join(sorted({gpu.name for gpu in gpus}))
        raise PodError(
            "UserError", "The pod's GPUs are not alike", expected="one kind", found=kinds, remedy=REMEDY
        )
    return gpus.pop()


def timing_cache_url(prefix: str | None, gpu: Gpu, tensorrt: str) -> str | None:
    """Return where the timings of this GPU and TensorRT lie: they say nothing of others."""
    if prefix is None:
        return None
    name = re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-")
    return f"{prefix}/{name}-sm{gpu.compute_capability}-trt{tensorrt}.cache"
