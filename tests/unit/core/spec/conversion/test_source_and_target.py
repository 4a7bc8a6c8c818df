"""The release file's source and conversion: what fits together, and what a target's pod is given."""

from __future__ import annotations

import pytest

from slipway_core.spec.release_file import parse_release_spec
from tests.support.spec.refusals import ENSEMBLE, LLM, MINIMAL, PYTHON, refusal


@pytest.mark.parametrize(
    ("text", "location", "required"),
    [
        (MINIMAL, "model.onnx", ("model.onnx", "golden.npz")),
        (PYTHON, "", ("config.pbtxt", "model.py", "golden.npz")),
        (
            PYTHON.replace("python}", "python, folder: code}", 1),
            "code/",
            ("code/config.pbtxt", "code/model.py", "golden.npz"),
        ),
        (PYTHON.replace("python}", "python, archive: m.tgz}", 1), "m.tgz", ("m.tgz", "golden.npz")),
        (ENSEMBLE, "repository/", ("golden.npz",)),
        (ENSEMBLE.replace("repository}", "repository, folder: unit}"), "unit/", ("golden.npz",)),
    ],
)
def test_source_says_where_it_lies_and_what_must_be_there(
    text: str, location: str, required: tuple[str, ...]
) -> None:
    """From the format follows where the source is looked for and which files must have arrived."""
    source = parse_release_spec(text, "digits.yaml").source
    assert (source.location, source.required_files()) == (location, required)
    assert source.is_folder is (not location or location.endswith("/"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: digits\nsource: {format: python}\n", "is made of `source.format: onnx`, not of `python`"),
        (MINIMAL + "conversion: {target: ensemble}\n", "is made of `source.format: repository`"),
        (ENSEMBLE.replace("repository}", "repository, model_file: a.onnx}"), "name a `folder`"),
        (ENSEMBLE.replace("repository}", "repository, archive: a.rar}"), "must end with one of .tar"),
        (ENSEMBLE.replace("repository}", "repository, archive: a.zip, folder: a}"), "either `folder` or"),
        ("model: chat\nsource: {format: checkpoint, archive: a.tar}\n", "name a `folder`"),
        ("model: digits\nsource: {folder: a}\n", "name it as `model_file`"),
        (PYTHON.replace("target: python", "target: python, precision: fp32"), "only another `target`"),
        (PYTHON.replace("target: python", "target: python, try_imprt: true"), "`conversion.try_import`"),
    ],
)
def test_source_and_target_that_do_not_fit_are_refused(text: str, words: str) -> None:
    """A target that is not made of the format, and keys that say nothing for it, are errors that say why."""
    assert words in str(refusal(text))


def _target(name: str, more: str = "") -> str:
    return f"model: digits\nsource: {{format: {name}}}\nconversion: {{target: {name}{more}}}\n"


@pytest.mark.parametrize(
    ("text", "program", "image", "location", "first"),
    [
        (MINIMAL, "onnx", "onnx", "model.onnx", ["--precision", "fp32"]),
        (_target("sklearn"), "estimator", "sklearn", "model.skops", ["--library", "sklearn"]),
        (_target("xgboost"), "estimator", "sklearn", "model.ubj", ["--library", "xgboost"]),
        (_target("lightgbm"), "estimator", "sklearn", "model.txt", ["--library", "lightgbm"]),
        (_target("pytorch"), "pytorch", "pytorch", "model.pt", ["--format", "torchscript"]),
        (PYTHON, "python", "python", "", ["--max-size-mib", "2048"]),
        (ENSEMBLE, "ensemble", "ensemble", "repository/", ["--max-size-mib", "8192"]),
        (
            MINIMAL + "conversion: {target: tensorrt}\n",
            "tensorrt",
            "tensorrt",
            "model.onnx",
            ["--precision", "fp16"],
        ),
        (
            "model: chat\nsource: {format: checkpoint}\nconversion: {target: tensorrt_llm}\n",
            "tensorrt_llm",
            "tensorrt-llm",
            "checkpoint/",
            ["--precision", "bf16"],
        ),
    ],
)
def test_each_target_has_its_program_image_source_and_arguments(
    text: str, program: str, image: str, location: str, first: list[str]
) -> None:
    """A release file can ask for each target with two words, and the rest follows."""
    spec = parse_release_spec(text, "digits.yaml")
    assert spec.conversion.program == f"convert_{program}.py"
    assert spec.conversion.image == f"slipway/{image}:0.1.0"
    assert spec.source.location == location
    assert spec.conversion.converter_arguments(str)[:2] == first


def test_what_a_conversion_reads_must_have_arrived() -> None:
    """A module's file and calibration rows are asked for at admission, those of a variant too."""
    torch = _target("pytorch", ", format: state_dict, trusted: true, module: 'net:Net', module_file: net.py")
    assert parse_release_spec(torch, "digits.yaml").required_files() == ("model.pt", "golden.npz", "net.py")
    rows = "quantization: {method: static, calibration_file: rows.npz}"
    quick = MINIMAL + "conversion: {variants: {quick: {precision: int8, " + rows + "}, whole: {}}}\n"
    assert parse_release_spec(quick, "digits.yaml").required_files() == (
        "model.onnx",
        "golden.npz",
        "rows.npz",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MINIMAL + "conversion: {target: tensorrt, resources: {gpu: 0}}\n", "`resources.gpu: 0` is too few"),
        (
            LLM + "conversion: {target: tensorrt_llm, tp_size: 4, pp_size: 2, resources: {gpu: 4}}\n",
            "needs 8",
        ),
        (MINIMAL + "conversion: {target: tensorrt, memory_mib: 16385}\n", "`resources.memory: 16Gi`"),
        (MINIMAL + "conversion: {timeout_s: 86401}\n", "`conversion.timeout_s` has a wrong value"),
        (MINIMAL + "conversion: {startup_timeout_s: 3601}\n", "`conversion.startup_timeout_s`"),
    ],
)
def test_a_pod_that_could_not_do_its_work_is_refused(text: str, words: str) -> None:
    """Too few GPUs, a tool's limit above its pod's, and more time than the task has, are errors in the file."""
    assert words in str(refusal(text))


def test_a_limit_of_memory_within_the_pods_is_kept() -> None:
    """What the release file says goes to the program; left out, it is seven eighths of the pod's memory."""
    for more, mib in (("memory_mib: 16384", "16384"), ("resources: {memory: 8Gi}", "7168")):
        spec = parse_release_spec(MINIMAL + f"conversion: {{target: tensorrt, {more}}}\n", "digits.yaml")
        given = spec.conversion.converter_arguments(str)
        assert given[given.index("--memory-mib") + 1] == mib


def test_an_own_image_is_kept() -> None:
    """The image follows from the target only where none is named."""
    own = PYTHON.replace("target: python", "target: python, try_import: true, image: 'a/b:1'")
    conversion = parse_release_spec(own, "digits.yaml").conversion
    assert conversion.image == "a/b:1"
    assert "--try-import" in conversion.converter_arguments(str)
