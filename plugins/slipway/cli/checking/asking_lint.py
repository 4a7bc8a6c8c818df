"""Can a model be asked its golden set? Found from the files alone, before anything is uploaded or runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.cli.checking.config_file import LintedConfig, lint_config
from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.askable import require_askable
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.gates.validation.request_options import optional_inputs
from slipway_core.gates.validation.scores import require_output
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.tensors import ModelSignature
from slipway_core.triton_config.build import served_signature
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.ragged import is_asked_row_by_row
from slipway_rules.npz import SIZE_LIMIT_BYTES


@dataclass(frozen=True)
class Askable:
    """What was found: how rows are taken, what fits the configuration, and what these files do not tell."""

    rows_taken: str = ""
    unknown: str = ""
    configuration: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return {
            "rows_taken": self.rows_taken or None,
            "unknown": self.unknown or None,
            "configuration": self.configuration or None,
        }

    def lines(self) -> list[str]:
        """Return it in lines."""
        lines = [f"the golden set can be sent: {self.rows_taken}"] if self.rows_taken else []
        lines += [self.configuration] if self.configuration else []
        return [*lines, *([f"unknown: {self.unknown}"] if self.unknown else [])]


def lint_askable(spec: ReleaseSpec, model: Path | None, golden: Path | None) -> Askable:
    """Return how the model is asked its golden set, as far as the files tell it.

    :param model: the model's file; of ONNX its signature is read.
    :param golden: the golden set.
    :raises GoldenSetError: it cannot be asked; the reason is named.
    :raises SpecError: the model has no output of the name that the release file gives.
    :raises ModelInvalidError: the model, the release file's `serving` and the config.pbtxt beside it do not fit.
    :raises CommandError: the model's file cannot be read.
    """
    arrays = None if golden is None else _arrays(golden)
    signature = _signature(spec, model)
    linted = LintedConfig() if model is None else lint_config(spec, model, signature, arrays)
    if signature is not None:
        for output in spec.validation.outputs:
            require_output(signature, output)
    rows_taken = "" if arrays is None else _rows_taken(spec, arrays, signature, linted.config)
    return Askable(rows_taken, _unknown(spec, model, signature), linted.note)


def _rows_taken(
    spec: ReleaseSpec, arrays: dict[str, Any], signature: ModelSignature | None, config: Config | None
) -> str:
    """Return how rows are taken: as clients send them, where the configuration that is published is known."""
    if signature is None or config is None:
        return require_askable(spec, arrays, signature)
    optional, row_by_row = optional_inputs(config), is_asked_row_by_row(config)
    return require_askable(spec, arrays, served_signature(config), optional, row_by_row=row_by_row)


def _signature(spec: ReleaseSpec, model: Path | None) -> ModelSignature | None:
    if model is None or spec.source.format != "onnx":
        return None
    from slipway.cli.model_files.signature import read_signature

    return read_signature(model)


def _arrays(golden: Path) -> dict[str, Any]:
    size = golden.stat().st_size
    if size > SIZE_LIMIT_BYTES:
        raise GoldenSetError(
            f"{golden} is too large for a golden set",
            expected=f"at most {SIZE_LIMIT_BYTES} bytes",
            found=f"{size} bytes",
            remedy="Use fewer rows: a gate needs hundreds, not all.",
        )
    return read_arrays(golden.read_bytes(), str(golden))


def _unknown(spec: ReleaseSpec, model: Path | None, signature: ModelSignature | None) -> str:
    if signature is not None:
        return ""
    if model is None:
        return "whether the model's inputs fit, without --model"
    return (
        f"what a model of `source.format: {spec.source.format}` takes, which its file does not say; "
        "the converter tries it first, and refuses it if it does not fit"
    )
