"""The flags that the chart starts Triton with, given to the real tritonserver of the sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.chart.manifests import MANIFESTS
from tests.support.serving.triton_install import triton_install

# What differs from place to place, and what the sandbox gives its server besides.
_OF_PLACE = {"http-port", "grpc-port", "metrics-port", "model-repository"}


def given(path: str) -> dict[str, str]:
    """Return the flags of a rendered Triton that do not depend on where it runs."""
    (found,) = yaml.safe_load_all((MANIFESTS / path).read_text(encoding="utf-8"))
    spec = found["spec"]["template"]["spec"] if found["kind"] == "Deployment" else found["spec"]
    _, *flags = spec["containers"][0]["args"]
    every = dict(one.removeprefix("--").partition("=")[::2] for one in flags)
    return {name: value for name, value in every.items() if name not in _OF_PLACE}


class ChartTriton(TritonServer):
    """A server of the sandbox with the chart's flags in place of its own."""

    flags: dict[str, str]

    def argv(self) -> list[str]:
        """Return the command line; a flag of the chart's replaces the sandbox's."""
        others = [one for one in super().argv() if one.removeprefix("--").partition("=")[0] not in self.flags]
        return [*others, *(f"--{name}={value}" for name, value in self.flags.items())]


@pytest.mark.parametrize("path", ["staging/deployment.yaml", "serving/runtimes.yaml"])
def test_triton_knows_every_flag(tmp_path: Path, path: str) -> None:
    """It starts with them, is ready without a model, and ends in good order."""
    repository = tmp_path / "repository"
    repository.mkdir()
    server = ChartTriton(triton_install(), repository, TritonPorts.free(), log_path=tmp_path / "triton.log")
    server.flags = given(path)
    assert server.flags
    server.start()
    try:
        server.wait_ready()
    finally:
        code = server.stop()
    assert code == 0, server.failure()
