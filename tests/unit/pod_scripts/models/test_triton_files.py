"""What Triton reads of a model, read here: configurations, templates of them, and programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from slipway_pod.errors import PodError
from slipway_pod.models.templates import fill_templates
from slipway_pod.models.tensors import Tensor
from slipway_pod.models.triton_files import config_text, declared_tensors, read_config, read_program
from slipway_rules.version_manifest import CONFIG_FILE


def config_of(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


INPUT = 'input { name: "x" data_type: TYPE_%s dims: [ 2, -1 ] }'


@pytest.mark.parametrize(
    ("text", "tensor"),
    [
        (INPUT % "FP32", Tensor("x", "FP32", (2, -1))),
        (INPUT % "FP32" + " max_batch_size: 8", Tensor("x", "FP32", (-1, 2, -1))),
        (INPUT % "STRING", Tensor("x", "BYTES", (2, -1))),
        (INPUT.replace("dims", "optional: true dims") % "FP32", Tensor("x", "FP32", (2, -1), optional=True)),
    ],
)
def test_tensors_are_as_clients_see_them(text: str, tensor: Tensor) -> None:
    """Triton's words for datatypes, and the batch dimension where the server adds one."""
    assert declared_tensors(config_of(text), "input", CONFIG_FILE) == (tensor,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "declares no output"),
        ('output { name: "y" data_type: TYPE_FP32 }', "An output in here is not complete"),
        ('output { name: "y" dims: 1 }', "not complete"),
        ("output { data_type: TYPE_FP32 dims: 1 }", "not complete"),
    ],
)
def test_half_a_declaration_is_refused(text: str, words: str) -> None:
    """A tensor wants name, type and size, since nothing is run to find them out."""
    with pytest.raises(PodError, match=words):
        declared_tensors(config_of(text), "output", "here")


def test_a_configuration_survives_its_text(tmp_path: Path) -> None:
    """What is written is read again as the same message; what is not there or not a ModelConfig is named."""
    config, path = config_of(INPUT % "INT8"), tmp_path / CONFIG_FILE
    with pytest.raises(PodError, match=r"There is no m/config\.pbtxt.*Remedy: write it"):
        read_config(path, "m/config.pbtxt", "write it")
    path.write_text(config_text(config))
    assert read_config(path, CONFIG_FILE, "write it") == config
    path.write_text("input [")
    with pytest.raises(PodError, match="cannot be read"):
        read_config(path, CONFIG_FILE, "write it")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"def f(:", "line 1"),
        (b"\0", "null bytes"),
        (b"x = " + b"-" * 100_000 + b"1", ""),
        ("# -*- coding: latin-1 -*-\nx = 'é'".encode("latin-1"), None),
    ],
    ids=["syntax", "null bytes", "too deep", "fine"],
)
def test_programs_are_compiled_and_not_run(tmp_path: Path, content: bytes, words: str | None) -> None:
    """What Python would not take is refused with the line; what it takes is only parsed."""
    path = tmp_path / "model.py"
    path.write_bytes(content)
    if words is None:
        assert read_program(path, "m/model.py").body
        return
    with pytest.raises(PodError, match=r"m/model\.py is not valid Python") as raised:
        read_program(path, "m/model.py")
    assert words in str(raised.value.found)


def fill(folder: Path, text: str, **values: Any) -> Any:
    for name, content in {"top": "ensemble_scheduling { step { model_name: 'part' } }", "part": text}.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / CONFIG_FILE).write_text(content)
    return fill_templates(folder, {"top": "chat", "part": "chat_part"}, values)


def test_placeholders_become_values_of_their_types(tmp_path: Path) -> None:
    """Numbers, truth and text arrive as the field wants them; a parameter that nobody has set is left out."""
    text = """
    # a remark: ${nobody}
    backend: "${backend}"
    max_batch_size: ${size}
    model_transaction_policy { decoupled: ${streams} }
    parameters { key: "set" value: { string_value: "${streams}/${size}" } }
    parameters { key: "unset" value: { string_value: "${nobody}" } }
    input [ { name: "x" dims: [ 1 ] }, { name: "x" dims: [ 1 ] } ]
    """
    configs = fill(tmp_path, text, backend="python", size=8, streams=True)
    part = configs["chat_part"]
    assert (part.name, part.backend, part.max_batch_size) == ("chat_part", "python", 8)
    assert part.model_transaction_policy.decoupled
    assert {key: value.string_value for key, value in part.parameters.items()} == {"set": "true/8"}
    assert [tensor.name for tensor in part.input] == ["x"]
    assert configs["chat"].ensemble_scheduling.step[0].model_name == "chat_part"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("max_batch_size: ${nobody}", "${nobody}, which has no value"),
        ('backend: "${nobody}"', "${nobody}, which has no value"),
        ("no_such_field: 1", "no_such_field"),
        ("ensemble_scheduling { step { model_name: 'stranger' } }", "a step 'stranger'"),
    ],
)
def test_a_template_that_cannot_be_filled_in(tmp_path: Path, text: str, found: str) -> None:
    """Templates of another version are told by what this program has no value for."""
    with pytest.raises(PodError, match="The template of part") as raised:
        fill(tmp_path, text)
    assert found in str(raised.value.found)
