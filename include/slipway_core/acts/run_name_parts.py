"""The parts of which runs' names are made, each checked before it becomes one.

Each function takes the values of a run's form, raises `SlipwayError` where one is missing or cannot be in a name, and
returns None if the form's values name nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from slipway_core.identifiers import parse_version, validate_model_name

Conf = Mapping[str, Any]
EVERY_MODEL = "all"
_FINDING = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def model(conf: Conf) -> str:
    """Return the model's name."""
    return validate_model_name(conf.get("model"))


def model_or_all(conf: Conf) -> str:
    """Return the model's name, or what stands for every model."""
    return EVERY_MODEL if conf.get("model") is None else model(conf)


def version(conf: Conf, of: str = "model") -> str:
    """Return the model and the version, `digits-2`."""
    return f"{validate_model_name(conf.get(of))}-{parse_version(conf.get('version'))}"


def version_or_model(conf: Conf) -> str:
    """Return the model, and the version where one is named."""
    return model(conf) if conf.get("version") is None else version(conf)


def closed_finding(conf: Conf) -> str | None:
    """Return the model and the finding that is closed; None if nothing can be named so."""
    finding = conf.get("finding")
    if not isinstance(finding, str) or not _FINDING.fullmatch(finding) or ".." in finding:
        return None
    return f"{model(conf)}-close-{finding}"


def followed_by(part: Callable[[Conf], str], what: str) -> Callable[[Conf], str]:
    """Return what makes a name of a part and of what is done, `digits-pause`."""
    return lambda conf: f"{part(conf)}-{what}"
