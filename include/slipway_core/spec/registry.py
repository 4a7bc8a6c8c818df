"""The release file's `registry`: the registered model whose promoted versions become releases."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from slipway_core.spec.parts import SpecPart
from slipway_core.value_types import RelativePath

LIVE_ALIAS, PREVIOUS_ALIAS = "live", "previous"
"""What Slipway says of versions; nobody promotes a version by these."""

# MLflow refuses `/` and `:` itself; a quote would end the filter of a search.
_NAME = re.compile(r"[^/:'\"`%\\\x00-\x1f\x7f]{1,250}")
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_RESERVED_ALIAS = re.compile(r"latest|v[0-9]+", re.IGNORECASE)
_ROOT = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/([A-Za-z0-9._=+@-]+/)*")


def _model_name(text: str) -> str:
    if not _NAME.fullmatch(text) or text != text.strip():
        raise ValueError(
            "must be the name of a registered model, without quotes, `/`, `:`, `%` and backslash"
        )
    return text


def _alias(text: str) -> str:
    if not _ALIAS.fullmatch(text) or _RESERVED_ALIAS.fullmatch(text):
        raise ValueError("must be an alias that MLflow takes, such as candidate: letters, digits, `_`, `-`")
    if text in (LIVE_ALIAS, PREVIOUS_ALIAS):
        raise ValueError(f"must not be `{text}`: Slipway sets that one itself")
    return text


def _artifact_root(text: str) -> str:
    if not _ROOT.fullmatch(text) or "/../" in text or "/./" in text:
        raise ValueError("must be a folder of S3 with a slash at its end, such as s3://mlflow-artifacts/1/")
    return text


class MlflowModel(SpecPart):
    """A registered model of MLflow. The version that carries `alias` is brought in and released."""

    registered_model: Annotated[str, AfterValidator(_model_name)]
    alias: Annotated[str, AfterValidator(_alias)] = "candidate"
    run_files: dict[RelativePath, RelativePath] = Field(default_factory=dict, max_length=20)
    """Further files, from the artifacts of the run that made the version: the name here, the path there."""
    artifact_roots: Annotated[
        tuple[Annotated[str, AfterValidator(_artifact_root)], ...], Field(max_length=20)
    ] = ()
    """S3 prefixes from which artifacts may be read without MLflow's server; empty: none."""
    size_limit_mib: Annotated[int, Field(ge=1, le=1024 * 1024)] = 10 * 1024
    """Larger versions are not imported."""


class Registry(SpecPart):
    """The registry that announces promoted versions, and that is notified of their outcome."""

    mlflow: MlflowModel
