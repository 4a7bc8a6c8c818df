"""NVIDIA's templates of config.pbtxt, filled in as messages. A placeholder without a value is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError, first_line
from slipway_pod.models.triton_files import config_text
from slipway_rules.version_manifest import CONFIG_FILE

PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


def fill_templates(folder: Path, names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ModelConfig of each model by its name; `names` says what each template's model is called.

    :raises PodError: of kind ModelInvalidError.
    """
    configs = {}
    for template, name in names.items():
        try:
            text = (folder / template / CONFIG_FILE).read_text()
        except OSError as error:
            raise template_error(template, first_line(error)) from error
        message = filled(text, template, values)
        message.name = name
        for step in message.ensemble_scheduling.step:
            if step.model_name not in names:
                raise template_error(template, f"a step {step.model_name!r}")
            step.model_name = names[step.model_name]
        drop_repeated(message.input)
        drop_repeated(message.output)
        configs[name] = message
    return configs


def filled(text: str, name: str, values: Mapping[str, Any]) -> Any:
    """Return a template as a ModelConfig message: typed values where it wants them, text inside quotes."""
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    missing: list[str] = []

    def literal(match: re.Match[str]) -> str:
        # Inside quotes the placeholder is valid text, and is filled in the message.
        if match.string[: match.start()].split("\n")[-1].count('"') % 2:
            return match.group(0)
        if match.group(1) not in values:
            missing.append(match.group(1))
            return "0"
        return as_text(values[match.group(1)])

    without_remarks = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    typed = PLACEHOLDER.sub(literal, without_remarks)
    if missing:
        raise template_error(name, f"${{{missing[0]}}}, which has no value")
    try:
        message = text_format.Parse(typed, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        raise template_error(name, first_line(error)) from error
    for key in list(message.parameters):
        said = message.parameters[key].string_value
        if any(found not in values for found in PLACEHOLDER.findall(said)):
            # A parameter without a value is left to the backend's default.
            del message.parameters[key]
        else:
            message.parameters[key].string_value = PLACEHOLDER.sub(
                lambda match: as_text(values[match.group(1)]), said
            )
    message.backend = PLACEHOLDER.sub(
        lambda match: as_text(values.get(match.group(1), match.group(0))), message.backend
    )
    left = PLACEHOLDER.search(config_text(message))
    if left:
        raise template_error(name, f"{left.group(0)}, which has no value")
    return message


def as_text(value: Any) -> str:
    """Return a value as a parameter holds it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def template_error(name: str, found: str) -> PodError:
    """Return the error for a template that this program cannot fill in."""
    return PodError(
        "ModelInvalidError",
        f"The template of {name} cannot be filled in",
        expected="placeholders that this program knows, and Triton's ModelConfig",
        found=found,
        remedy="use the templates of TensorRT-LLM 0.21, which the image holds",
    )


def drop_repeated(tensors: Any) -> None:
    """Keep one of the tensors that a template lists twice."""
    for index in reversed(range(len(tensors))):
        if any(other.name == tensors[index].name for other in list(tensors)[:index]):
            del tensors[index]
