"""What is read of one of two versions: its manifest, its configurations, what its gates measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.web.comparison.comparison import Side
from slipway.web.comparison.measured import Measured
from slipway_core.bucket_layout import evidence_prefix
from slipway_core.errors import TransientError, UserError
from slipway_core.publishing.manifest import Manifest
from slipway_core.read_model.documents import ModelDocument, VersionLine
from slipway_core.triton_config.pbtxt import to_pbtxt

REPORT_LIMIT_BYTES = 4 << 20
_CONFIGS_LIMIT = 20
# An integer above it is no float, and no figure of a gate either.
_MOST = 1e300
_Name = Annotated[str, Field(max_length=100)]


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Validation(_Report):
    """What is shown of `validation.json`."""

    numbers: dict[_Name, float | int | bool | str | None] = {}


class _Compared(_Report):
    figure: _Name
    unit: _Name = ""
    candidate: float | None = None
    stable: float | None = None


class _Benchmark(_Report):
    """What is shown of `benchmark/verdict.json`."""

    comparisons: Annotated[tuple[_Compared, ...], Field(max_length=100)] = ()


R = TypeVar("R", bound=_Report)


def side_of(store: ModelStoreHook, document: ModelDocument, version: int) -> Side:
    """Return what is known of a version, read with the registry's verified readers.

    :raises TransientError: the store does not answer.
    """
    line = document.line(version)
    figures, stable_figures = ({}, {}) if line is None else _figures(store, line)
    registry, absent = ModelRegistry(store), ""
    manifest: Manifest | None = None
    configs: Mapping[str, str] = {}
    try:
        manifest = registry.require(document.model, version)
        configs = _configs(registry, manifest)
    except TransientError:
        raise
    except UserError as error:
        absent = error.in_short()
    return Side(version, line, manifest, absent, configs, figures, stable_figures)


def _configs(registry: ModelRegistry, manifest: Manifest) -> dict[str, str]:
    configs = sorted(registry.configs(manifest).items())
    return {name: to_pbtxt(config) for name, config in configs[:_CONFIGS_LIMIT]}


def _figures(store: ModelStoreHook, line: VersionLine) -> tuple[dict[str, Measured], dict[str, Measured]]:
    """Return what the gates of a version's newest release measured of it, and of the version that was stable then.

    A report that cannot be right is left out.
    """
    prefix = evidence_prefix(line.model, line.version, line.release_id)
    own: dict[str, Measured] = {}
    stable: dict[str, Measured] = {}
    validation = _read(store, f"{prefix}validation.json", _Validation)
    for name, value in ({} if validation is None else validation.numbers).items():
        if isinstance(value, float | int) and not isinstance(value, bool) and abs(value) < _MOST:
            own[f"validation: {name.replace('_', ' ')}"] = Measured(float(value))
    benchmark = _read(store, f"{prefix}benchmark/verdict.json", _Benchmark)
    for one in () if benchmark is None else benchmark.comparisons:
        name = f"benchmark: {one.figure.replace('_', ' ')}"
        if one.candidate is not None:
            own[name] = Measured(one.candidate, one.unit)
        if one.stable is not None:
            stable[name] = Measured(one.stable, one.unit)
    return own, stable


def _read(store: ModelStoreHook, key: str, kind: type[R]) -> R | None:
    try:
        content = store.read(key, most_bytes=REPORT_LIMIT_BYTES)
        return None if content is None else kind.model_validate_json(content)
    except (UserError, ValidationError):
        return None
