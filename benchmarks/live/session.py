"""A lab for one figure: fresh at its beginning, ended whatever happens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from benchmarks.figure import MeasureError
from benchmarks.sandbox import PROJECT_ROOT
from slipway_core.errors import SlipwayError
from slipway_sandbox.host.settings import SettingsError
from slipway_sandbox.lab.serving_stack import Lab
from slipway_sandbox.lifecycle import LifecycleError

if TYPE_CHECKING:
    from benchmarks.live.canary import LabModel

ROOT = PROJECT_ROOT / ".sandbox" / "bench" / "lab"


@contextmanager
def live_model(
    *,
    weight: int = 20,
    window_s: int = 2,
    limit_s: int = 90,
    root: Path = ROOT,
    mode: str = "Knative",
    drain_s: int | None = None,
) -> Iterator[LabModel]:
    """Give a lab whose model has version 1 live.

    A canary of it has one step of `weight` percent, watched in windows of `window_s` for at most `limit_s`. `mode` is
    KServe's; without `drain_s` the release file leaves it out.
    MeasureError where the lab, or what is done in it, fails.
    """
    try:
        with Lab(root) as lab, patch.dict(os.environ, lab.environment(lab.root / "airflow")):
            from benchmarks.live.canary import LabModel, release_spec

            model = LabModel(lab, release_spec(weight, window_s, limit_s, mode=mode, drain_s=drain_s))
            model.deploy_stable()
            yield model
    except (SlipwayError, LifecycleError, SettingsError) as error:
        raise MeasureError(str(error)) from error
