"""What the release file says of a CPU target is checked, and becomes arguments that the target's program takes."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from pydantic import ValidationError

from slipway_core.spec.conversion.conversion import Conversion, Places, tool_memory_mib
from slipway_core.spec.conversion.targets.ensemble import EnsembleConversion
from slipway_core.spec.conversion.targets.lightgbm import LightgbmConversion
from slipway_core.spec.conversion.targets.onnx import OnnxConversion
from slipway_core.spec.conversion.targets.pytorch import PytorchConversion
from slipway_core.spec.conversion.targets.sklearn import SklearnConversion
from slipway_core.spec.conversion.targets.tensorrt_llm import TensorRtLlmConversion
from slipway_core.spec.conversion.targets.xgboost import XgboostConversion

COMMAND = ["--source", "s3://b/m", "--golden", "s3://b/g", "--destination", "s3://b/d"]
STATIC = {
    "method": "static",
    "calibration_file": "rows.npz",
    "calibration_method": "entropy",
    "per_channel": True,
}
MODULE = {
    "format": "state_dict",
    "trusted": True,
    "module": "nets.digits:Net",
    "module_file": "net.py",
    "module_arguments": {"hidden": 24},
    "inputs": ["pixels"],
    "outputs": ["probabilities"],
}


def uri(name: str) -> str:
    return f"s3://b/{name}"


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (OnnxConversion, {}),
        (OnnxConversion, {"precision": "fp16", "keep_fp32": ["Softmax_1"]}),
        (OnnxConversion, {"precision": "int8", "quantization": STATIC}),
        (PytorchConversion, {}),
        (PytorchConversion, {**MODULE, "precision": "int8"}),
        (SklearnConversion, {"trusted_types": ["sklearn.tree._tree.Tree"], "input": "rows"}),
        (XgboostConversion, {}),
        (LightgbmConversion, {"trusted": True}),
    ],
)
def test_the_program_understands_the_release_file(kind: Any, given: dict[str, Any]) -> None:
    """Every option of the release file is an argument of its program, and arrives there with its value."""
    options = kind.model_validate_json(json.dumps(given))
    program = importlib.import_module(kind.program.removesuffix(".py"))
    arguments = program.arguments([*COMMAND, *options.converter_arguments(uri)])
    seen = {**vars(arguments), "trusted_types": getattr(arguments, "trusted_type", None)}
    assert seen.get("library") == getattr(kind, "library", None)
    for key, value in given.items():
        if key == "quantization":
            assert arguments.calibration == "s3://b/rows.npz"
            assert (arguments.quantization, arguments.calibration_method) == ("static", "entropy")
            assert arguments.per_channel
        elif key == "module_file":
            assert arguments.module_file == "s3://b/net.py"
        else:
            assert (list(seen[key]) if isinstance(value, list) else seen[key]) == value


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (OnnxConversion, {"quantization": {"per_channel": True}}, "precision: int8"),
        (OnnxConversion, {"precision": "int8", "quantization": {"method": "static"}}, "calibration_file"),
        (OnnxConversion, {"precision": "int8", "quantization": {"calibration_file": "a.npz"}}, "static"),
        (PytorchConversion, {"format": "export"}, "trusted: true"),
        (PytorchConversion, {"format": "state_dict", "trusted": True}, "module_file"),
        (PytorchConversion, {"module": "net:Net", "module_file": "net.py"}, "state_dict"),
        (XgboostConversion, {"precision": "int8"}, "fp32"),
        (LightgbmConversion, {"trusted_types": ["a.B"]}, "trusted_types"),
    ],
)
def test_contradictions_are_refused(kind: Any, given: dict[str, Any], says: str) -> None:
    """Options that do not go together are an error when the file is read, not when the pod has started."""
    with pytest.raises(ValidationError, match=says):
        kind.model_validate_json(json.dumps(given))


@pytest.mark.parametrize(
    ("quantity", "mib"),
    [("2Gi", 1792), ("512Mi", 448), ("1G", 834), ("1.5Gi", 1344), ("1073741824", 896), ("8", 1)],
)
def test_tools_leave_the_pod_some_memory(quantity: str, mib: int) -> None:
    """A tool may take seven eighths of its pod's memory, whatever unit the release file uses."""
    assert tool_memory_mib(quantity) == mib


PLACES = Places("s3://b/m", "s3://b/g", "s3://b/d", "digits", 3, uri)
HUB = {"name": "a/b", "revision": "0" * 40}


@pytest.mark.parametrize(
    ("conversion", "before", "after"),
    [
        (
            XgboostConversion(),
            ["convert_estimator.py", "--source", "s3://b/m", *COMMAND[2:]],
            ["--memory-mib", "1792"],
        ),
        (
            EnsembleConversion(timeout_s=7),
            ["convert_ensemble.py", *COMMAND, "--model", "digits", "--version", "3"],
            ["--max-size-mib", "8192"],
        ),
        (
            TensorRtLlmConversion.model_validate({"hub": HUB}),
            [
                "convert_tensorrt_llm.py",
                *COMMAND[2:],
                "--model",
                "digits",
                "--version",
                "3",
                "--hub-model",
                "a/b",
            ],
            ["--memory-mib", str(96 * 1024 * 7 // 8)],
        ),
    ],
)
def test_a_target_says_the_whole_command(conversion: Conversion, before: list[str], after: list[str]) -> None:
    """Program, addresses, the version's identity where a repository is laid out, the options, and the time limit."""
    command = conversion.command(PLACES)
    assert command[: len(before)] == before
    assert command[-len(after) - 2 :] == [*after, "--timeout-s", str(conversion.timeout_s)]
