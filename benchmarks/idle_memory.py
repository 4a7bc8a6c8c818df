"""`idle_mib`: what Airflow, the sandbox and three Tritons hold while nothing happens.

The memory is the proportional set size: a page shared by several processes counts once in all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from benchmarks.figure import Figure, MeasureError
from benchmarks.sandbox import SANDBOX_ROOT, sandbox
from slipway_core.errors import SlipwayError
from slipway_core.spec.release_file import load_model_spec
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.build import build_config
from slipway_core.triton_config.pbtxt import to_pbtxt
from slipway_digit_models.training import train
from slipway_sandbox.host.processes import SessionRecord, find_sandbox_processes
from slipway_sandbox.host.settings import MARKER, PROJECT_ROOT, SandboxSettings
from slipway_sandbox.host.supervise import session_file
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall

REVISIONS = 2
"""Beside the staging Triton: as many as there are during a canary."""

_IDLE_CPU_PERCENT = 40.0
_IDLE_FOR_S = 5.0
_IDLE_LIMIT_S = 120.0
_SAMPLES = 5
_SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="pixels", datatype="FP32", shape=(-1, 64)),),
    outputs=(
        TensorSpec(name="label", datatype="INT64", shape=(-1,)),
        TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 10)),
    ),
)


def measure() -> Figure:
    """Return the MiB, the median of some samples, once the work of the start is over."""
    with sandbox() as settings, _revisions(settings):
        _require_tritons(settings)
        _wait_until_idle(settings)
        samples = []
        for _ in range(_SAMPLES):
            samples.append(_proportional_mib(_processes(settings)))
            time.sleep(1.0)
    return Figure("idle_mib", statistics.median(samples), "MiB")


@contextmanager
def _revisions(settings: SandboxSettings) -> Iterator[None]:
    """Run servers as a canary has them: each with a version of the digits model loaded."""
    try:
        with ExitStack() as stack:
            install = TritonInstall.prepare(venv=settings.images_dir / "triton")
            for version in range(1, REVISIONS + 1):
                repository = _repository(settings.run_dir / "bench" / str(version), version)
                server = TritonServer(
                    install,
                    repository,
                    TritonPorts.free(),
                    environment={MARKER: str(SANDBOX_ROOT)},
                    exit_timeout_s=3,
                )
                server.start()
                stack.callback(server.stop)
                server.wait_ready()
            yield
    except SlipwayError as error:
        raise MeasureError(str(error)) from error


def _repository(folder: Path, version: int) -> Path:
    spec = load_model_spec(PROJECT_ROOT / "include" / "releases", "digits")
    model = folder / spec.model
    (model / str(version)).mkdir(parents=True)
    (model / str(version) / "model.onnx").write_bytes(train(version).onnx)
    (model / "config.pbtxt").write_text(to_pbtxt(build_config(spec, _SIGNATURE, version)))
    return folder


def _processes(settings: SandboxSettings) -> list[psutil.Process]:
    return find_sandbox_processes(SANDBOX_ROOT, SessionRecord.load(session_file(settings.root)))


def _require_tritons(settings: SandboxSettings) -> None:
    found = sum(process.name() == "tritonserver" for process in _processes(settings))
    if found != REVISIONS + 1:
        raise MeasureError(f"Expected {REVISIONS + 1} Tritons in the sandbox; found {found}.")


def _wait_until_idle(settings: SandboxSettings) -> None:
    """Wait until all processes together take little of a core for some seconds; MeasureError if they never do."""
    deadline = time.monotonic() + _IDLE_LIMIT_S
    while True:
        before = _cpu_seconds(_processes(settings))
        time.sleep(_IDLE_FOR_S)
        percent = 100.0 * (_cpu_seconds(_processes(settings)) - before) / _IDLE_FOR_S
        if percent < _IDLE_CPU_PERCENT:
            return
        if time.monotonic() > deadline:
            raise MeasureError(
                f"The sandbox does not come to rest: it takes {percent:.0f} % of a core after "
                f"{_IDLE_LIMIT_S:.0f} s; expected less than {_IDLE_CPU_PERCENT:.0f} %."
            )


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # it has just ended
        total += times.user + times.system
    return total


def _proportional_mib(processes: list[psutil.Process]) -> float:
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue  # it has just ended
    return total / 2**20
