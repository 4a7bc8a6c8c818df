"""The files that a configuration speaks of: the model's own in the version's folder, and those beside config.pbtxt.

Where Triton looks for them is in its core: `backend_model.cc` (labels, in the model's folder),
`backend_model_instance.cc` (warm-up data, below `warmup`), `sequence_batch_scheduler/` (initial states, below
`initial_state`), `model_config_utils.cc` (which file makes which backend).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from slipway_core.errors import ModelInvalidError
from slipway_core.triton_config.canonical import BACKENDS, MODEL_FILES, model_file
from slipway_core.triton_config.case import Case, Contradiction
from slipway_core.value_types import RelativePath

WARMUP_FOLDER = "warmup"
STATE_FOLDER = "initial_state"
_PATH: TypeAdapter[str] = TypeAdapter(RelativePath)


def platform_of(files: Collection[str]) -> str | None:
    """Return the platform that the names of a version's `files` tell; None if they do not tell any."""
    return next((platform for platform in BACKENDS if _is_among(MODEL_FILES[platform], files)), None)


def named_files(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the path of each file that Triton reads beside config.pbtxt, and the field that names it.

    :raises ModelInvalidError: for a path that leads out of the model's folder.
    """
    found: dict[str, str] = {}
    for field, path in _named(config):
        try:
            found.setdefault(_PATH.validate_python(path), field)
        except ValidationError as error:
            raise ModelInvalidError(
                f"config.pbtxt of {config.get('name') or 'the model'}: `{field}` names a file that isn't in its folder",
                expected="a path below the model's folder, of plain names",
                found=path,
                remedy="Put the file in the folder of config.pbtxt, and give its path from there.",
            ) from error
    return found


def _named(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for index, output in enumerate(config.get("output") or ()):
        if output.get("label_filename"):
            yield f"output[{index}].label_filename", str(output["label_filename"])
    for index, sample in enumerate(config.get("model_warmup") or ()):
        for name, value in (sample.get("inputs") or {}).items():
            if "input_data_file" in value:
                field = f"model_warmup[{index}].inputs[{name}].input_data_file"
                yield field, f"{WARMUP_FOLDER}/{value['input_data_file']}"
    sequence = config.get("sequence_batching") or {}
    for index, state in enumerate(sequence.get("state") or ()):
        for one in state.get("initial_state") or ():
            if "data_file" in one:
                field = f"sequence_batching.state[{index}].initial_state.data_file"
                yield field, f"{STATE_FOLDER}/{one['data_file']}"


def file_contradictions(case: Case) -> Iterator[Contradiction]:
    """Yield what does not fit between platform, backend and the names of files, and what is published."""
    platform, backend = str(case.config.get("platform") or ""), str(case.config.get("backend") or "")
    if backend and platform in BACKENDS and BACKENDS[platform] != backend:
        yield Contradiction(
            "backend",
            f"does not go with `platform: {platform}`",
            BACKENDS[platform],
            backend,
            "Leave one of the two out of config.pbtxt.",
        )
    if not case.files:
        return
    file = str(case.config.get("default_model_filename") or model_file(case.config) or "")
    if file and not _is_among(file, case.files):
        yield _not_made(case, file)
    for capability, name in (case.config.get("cc_model_filenames") or {}).items():
        if not _is_among(str(name), case.files):
            yield Contradiction(
                f"cc_model_filenames[{capability}]",
                "names a file that the conversion did not make",
                f"one of {', '.join(sorted(case.files)[:5])}",
                str(name),
                "Leave `cc_model_filenames` out of config.pbtxt: a release of several engines writes it.",
            )


def _not_made(case: Case, file: str) -> Contradiction:
    """Return the contradiction that `file`, which the configuration asks for, was not made."""
    field, remedy = "default_model_filename", "Leave it out of config.pbtxt, or change `conversion.target`."
    if file == model_file(case.config):
        field = "platform" if case.config.get("platform") else "backend"
        wanted = platform_of(case.files)
        remedy = (
            f"Write `serving.platform: {wanted}`, or nothing." if wanted else "Change `conversion.target`."
        )
        remedy += " Correct config.pbtxt, if it says another."
    return Contradiction(
        field,
        f"wants a file `{file}`, which the conversion did not make",
        file,
        ", ".join(sorted(case.files)[:5]),
        remedy,
    )


def _is_among(file: str, files: Collection[str]) -> bool:
    """Return whether the file is there; a model may also be a folder of that name."""
    return file in files or any(one.startswith(f"{file}/") for one in files)
