"""The configuration that a release would publish, of the release file and training's, before either is uploaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.cli.model_files.servable import converted_signature, require_portable_text, require_servable
from slipway_core.errors import InputMissingError
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.serving.sequences import as_released, require_no_sequences
from slipway_core.tensors import ModelSignature
from slipway_core.triton_config.build import build_config
from slipway_core.triton_config.checks.contradictions import require_consistent, require_named
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.pbtxt import SIZE_LIMIT, from_pbtxt
from slipway_core.triton_config.warmup import needs_golden
from slipway_rules.version_manifest import CONFIG_FILE

_ANY_VERSION = 1


@dataclass(frozen=True)
class LintedConfig:
    """What was held against each other, in words, and the configuration that would be published, where it is known."""

    note: str = ""
    config: Config | None = None


def lint_config(
    spec: ReleaseSpec,
    model: Path,
    stated: ModelSignature | None,
    golden: Mapping[str, Any] | None = None,
) -> LintedConfig:
    """Hold the model, the release file and training's config.pbtxt against each other.

    :param model: the model's file, or the folder that is released; its configuration is in the same folder, or in it.
    :param stated: what an ONNX file says of its inputs and outputs; None for other formats.
    :param golden: the golden set's arrays, where they were given.
    :raises ModelInvalidError: they contradict each other, or no server could load the model; the field is named.
    :raises InputMissingError: a file that the model needs is not there.
    :raises GoldenSetError: a warm-up wants a row that is not there.
    """
    if spec.source.is_folder or model.is_dir():
        return LintedConfig(_folder(spec, model))
    path = model.parent / CONFIG_FILE
    base = _read(path)
    if base is not None:
        require_named(base)
        require_no_sequences({spec.model: as_released(base, spec.serving)})
    prefix = "" if base is None else f"{path} and "
    made = spec.conversion.made_of_onnx
    if stated is None or made is None:
        if base is None:
            return LintedConfig()
        require_consistent({"name": spec.model, **base})
        return LintedConfig(f"{path} is consistent; the converter checks it against the model")
    require_servable(model)
    signature, overridable = converted_signature(
        model, stated, widens_single_numbers=spec.conversion.widens_single_numbers
    )
    if signature is None:
        if base is not None:
            require_consistent({"name": spec.model, **base})
        summary = f"{prefix}the model's file does not state every output's shape: the converter finds it"
        return LintedConfig(summary)
    without_rows = golden is None and needs_golden(spec.serving.warmup)
    serving = spec.serving.model_copy(update={"warmup": ()}) if without_rows else spec.serving
    config = build_config(
        spec.model_copy(update={"serving": serving}),
        signature,
        _ANY_VERSION,
        base=base,
        golden=golden or {},
        files=(made,),
        overridable=overridable,
    )
    return LintedConfig(f"{prefix}the release file's `serving` fit the model", config)


def _folder(spec: ReleaseSpec, model: Path) -> str:
    """Check what a folder holds: one model's configuration, or those of a repository."""
    if not model.is_dir():
        return ""
    found: dict[str, Config] = {}
    for path in sorted([model / CONFIG_FILE, *model.glob(f"*/{CONFIG_FILE}")]):
        config = _read(path)
        if config is not None:
            found[spec.model if path.parent == model else path.parent.name] = config
    for name, config in found.items():
        require_consistent({"name": name, **config})
    for member in sorted(model.glob("*/*/*.onnx")):
        require_portable_text(member)
    require_no_sequences(
        {name: as_released(one, spec.serving) if name == spec.model else one for name, one in found.items()}
    )
    return f"the configuration of {', '.join(found)} is consistent" if found else ""


def _read(path: Path) -> Config | None:
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return from_pbtxt(file.read(SIZE_LIMIT + 1), str(path))
    except OSError as error:
        raise InputMissingError(
            f"{path} cannot be read", expected="a file", found=str(error.strerror), remedy="Make it readable."
        ) from error
