"""One run of a converter: its options, and where it reads, works and writes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway_pod.program.limits import Limits
from slipway_pod.program.progress import say
from slipway_pod.storage.s3 import Store

# Files in the run's folder.
GOLDEN_FILE = "golden.npz"
CALIBRATION_FILE = "calibration.npz"
REFERENCE_FILE = "reference.npz"
MODEL_FILE = "model.onnx"


@dataclass
class ConversionRun:
    """One run: the arguments, the store, the folder it works in, and the limits of its tools."""

    options: argparse.Namespace
    store: Store
    folder: Path
    limits: Limits

    def fetch(self, url: str, name: str) -> Path:
        """Download an object to a file of this name in the folder."""
        target = self.folder / name
        self.store.download(url, target)
        say("fetch", f"{url}, {target.stat().st_size} bytes")
        return target

    def put(self, path: Path) -> dict[str, Any]:
        """Upload a file under the destination, by its own name; return its entry for the result."""
        url = f"{self.options.destination}/{path.name}"
        measured = self.store.upload(path, url)
        say("put", f"{url}, {measured['size_bytes']} bytes")
        return {"file": path.name, **measured}

    def tool(self, name: str, act: Callable[[], Any], share_of_time: float = 1.0) -> Any:
        """Return what `act` returns, run in a separate process within the limits."""
        return self.limits.run(name, act, share_of_time)
