"""The GPU of a pod, as nvidia-smi tells of it; here a script stands in for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway_pod.conversion.gpu import Gpu, read_gpu, timing_cache_url
from slipway_pod.errors import PodError


@pytest.fixture
def tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stand-in prints; a folder without it has no nvidia-smi."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/gpus"\n')
    program.chmod(0o755)
    return tmp_path / "gpus"


def test_gpus_of_one_kind_are_one(tells: Path) -> None:
    """Name, compute capability and driver are those that all of them have."""
    tells.write_text("NVIDIA L40S, 8.9, 580.65.06\n" * 2)
    assert read_gpu() == Gpu("NVIDIA L40S", "8.9", "580.65.06")


def test_gpus_of_several_kinds_are_refused(tells: Path) -> None:
    """An engine is for one kind: which it was would be a guess."""
    tells.write_text("NVIDIA L4, 8.9, 1\nNVIDIA H100, 9.0, 1\n")
    with pytest.raises(PodError) as raised:
        read_gpu()
    assert raised.value.found == "NVIDIA H100, NVIDIA L4"


@pytest.mark.parametrize("listed", ["", "no devices were found\n", None])
def test_a_pod_without_a_gpu_is_told_what_to_ask_for(tells: Path, listed: str | None) -> None:
    """None listed, a complaint, or no nvidia-smi that works: the remedy names the release file's field."""
    if listed is not None:
        tells.write_text(listed)
    with pytest.raises(PodError, match="no GPU") as raised:
        read_gpu()
    assert raised.value.kind == "UserError"
    assert "conversion.resources.gpu" in str(raised.value.remedy)


def test_timings_are_kept_by_gpu_and_tensorrt() -> None:
    """The place names GPU, compute capability and TensorRT; without a prefix there is none."""
    gpu = Gpu("NVIDIA H100 80GB HBM3", "9.0", "1")
    place = "s3://b/timings/nvidia-h100-80gb-hbm3-sm9.0-trt10.13.cache"
    assert timing_cache_url("s3://b/timings", gpu, "10.13") == place
    assert timing_cache_url(None, gpu, "10.13") is None
