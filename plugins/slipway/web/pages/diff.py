"""The page of two versions beside each other; what is published is read with the registry's verified readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from include.model_release.bucket_layout import evidence_prefix
from include.model_release.errors import TransientError, UserError
from include.model_release.identifiers import parse_version, validate_model_name
from include.model_release.publishing.manifest import Manifest
from include.model_release.read_model.documents import ModelDocument, VersionLine
from include.model_release.triton_config.pbtxt import to_pbtxt
from include.model_release.written_numbers import amount, number
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.web.pages.comparison import Side, compare
from slipway.web.rendering import render
from slipway.web.sources import Read

router = APIRouter()

REPORT_LIMIT_BYTES = 4 << 20
_CONFIGS_LIMIT = 20
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


class _Benchmark(_Report):
    """What is shown of `benchmark/verdict.json`."""

    comparisons: Annotated[tuple[_Compared, ...], Field(max_length=100)] = ()


R = TypeVar("R", bound=_Report)


@router.get("/models/{model}/diff/{a}/{b}")
def diff(request: Request, sources: Read, model: str, a: str, b: str) -> HTMLResponse:
    """Show what differs between two versions of a model."""
    name, before, after = validate_model_name(model), parse_version(a), parse_version(b)
    known = sources.read_model.known_model(name)
    sides = [_side(sources.store, known.value, version) for version in (before, after)]
    return render(
        request,
        "model/diff.html.j2",
        known=known,
        model=name,
        before=sides[0],
        after=sides[1],
        diff=compare(*sides),
    )


def _side(store: ModelStoreHook, document: ModelDocument, version: int) -> Side:
    line = document.line(version)
    figures = {} if line is None else _figures(store, line)
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
    return Side(version, line, manifest, absent, configs, figures)


def _configs(registry: ModelRegistry, manifest: Manifest) -> dict[str, str]:
    configs = sorted(registry.configs(manifest).items())
    return {name: to_pbtxt(config) for name, config in configs[:_CONFIGS_LIMIT]}


def _figures(store: ModelStoreHook, line: VersionLine) -> dict[str, str]:
    """Return what the gates of a version's newest release measured; a report that cannot be right is left out."""
    prefix = evidence_prefix(line.model, line.version, line.release_id)
    found: dict[str, str] = {}
    validation = _read(store, f"{prefix}validation.json", _Validation)
    for name, value in ({} if validation is None else validation.numbers).items():
        if isinstance(value, float | int) and not isinstance(value, bool):
            found[f"validation: {name.replace('_', ' ')}"] = amount(value)
    benchmark = _read(store, f"{prefix}benchmark/verdict.json", _Benchmark)
    for one in () if benchmark is None else benchmark.comparisons:
        if one.candidate is not None:
            found[f"benchmark: {one.figure.replace('_', ' ')}"] = (
                f"{number(one.candidate, 4)} {one.unit}".strip()
            )
    return found


def _read(store: ModelStoreHook, key: str, kind: type[R]) -> R | None:
    try:
        content = store.read(key, most_bytes=REPORT_LIMIT_BYTES)
        return None if content is None else kind.model_validate_json(content)
    except (UserError, ValidationError):
        return None
