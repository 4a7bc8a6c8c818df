"""Set-up beyond the project's own environment.

The pods' environments, Triton's server folder, the empty database.
"""

from __future__ import annotations

import compileall
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from slipway_sandbox.host.images import build_image, is_built
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import database_template
from slipway_sandbox.services.triton_install import TritonInstall

WHAT_PODS_RUN = tuple(PROJECT_ROOT / "include" / name for name in ("pod_scripts", "slipway_rules"))
SANDBOX_IMAGES = ("triton", "onnx", "smoke-test", "perf-analyzer")
# What the demo does without; pytorch is 3 GB to download.
TEST_IMAGES = (
    "genai-perf",
    "mirror-comparison",
    "score",
    "verify",
    "python",
    "ensemble",
    "sklearn",
    "pytorch",
    "mlflow",
)


def set_up(images_dir: Path, steps: Steps, *, for_tests: bool = False) -> None:
    """Build what is missing or out of date; what is there is reused.

    Raises ImageError, SlipwayError or AirflowError.
    """
    names = SANDBOX_IMAGES + (TEST_IMAGES if for_tests else ())
    started = time.monotonic()
    with ThreadPoolExecutor(max_workers=1) as executor:
        # Needs a processor where the images need the network: side by side, neither waits.
        database: Future[Path] = executor.submit(database_template, images_dir.parent)
        for name in names:
            if not is_built(name, images_dir):
                with steps.step(f"Image {name}"):
                    build_image(name, images_dir, report=lambda text: steps.say(f"  [dim]{text}[/]"))
        with steps.step("Triton's server folder"):
            TritonInstall.prepare(venv=images_dir / "triton")
        # As in an image: pods cannot write.
        for folder in WHAT_PODS_RUN:
            compileall.compile_dir(folder, quiet=1)
        with steps.step("Airflow's empty database"):
            database.result()
    steps.say(f"Set up in {time.monotonic() - started:.0f} s.")
