"""What a run of Airflow is called: the model, the version and what is done, whoever starts it.

`digits-2` is the first run that releases version 2 of `digits`, `digits-2-2` the second one. A run that an event or a
sweep starts has a digest of the upload behind it instead (`digits-2-1f0c3a9b`, `record.arrivals`): the same upload
twice starts it once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from slipway_core.errors import SlipwayError
from slipway_core.identifiers import parse_version, validate_model_name

EVERY_MODEL = "all"
RELEASE_DAG_ID = "model_release"
_RUN_NAME_LIMIT = 200
_FINDING = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_NUMBERS = range(2, 10_000)


def run_name(dag_id: str, conf: Mapping[str, Any]) -> str | None:
    """Return what a run of this DAG with these values of its form is called; None where its own name says as much.

    A value that the DAG will refuse makes no name either.
    """
    try:
        name = _name(dag_id, conf)
    except SlipwayError:
        return None
    return None if name is None or len(name) > _RUN_NAME_LIMIT else name


def timed(dag_id: str, name: str, at: datetime) -> str:
    """Return the name of a run that starts now: all but a release have the time behind it.

    What they write is found again by their run id, in the bucket, where it stays longer than Airflow keeps its runs.
    """
    return name if dag_id == RELEASE_DAG_ID else f"{name}-{at:%Y%m%dT%H%M%S}"


def free_run_id(name: str, taken: Collection[str]) -> str:
    """Return the run id for the next run of that name: `name`, `name-2`, `name-3`, …

    :param taken: the run ids that the DAG has already.
    :raises ValueError: there are too many of them.
    """
    if name not in taken:
        return name
    number = next((one for one in _NUMBERS if f"{name}-{one}" not in taken), None)
    if number is None:
        raise ValueError(f"there are {len(taken)} runs named {name!r}")
    return f"{name}-{number}"


def _name(dag_id: str, conf: Mapping[str, Any]) -> str | None:
    match dag_id:
        case _ if dag_id == RELEASE_DAG_ID:
            return _version(conf)
        case "model_rollback":
            to = conf.get("version")
            return f"{_model(conf)}-rollback" + ("" if to is None else f"-to-{parse_version(to)}")
        case "canary_pause":
            return f"{_model(conf)}-{_one_of(conf, 'pause', 'resume')}"
        case "version_rejection":
            return f"{_version(conf)}-{_one_of(conf, 'reject', 'unreject')}"
        case "version_pin":
            return f"{_version(conf)}-{_one_of(conf, 'pin', 'unpin')}"
        case "release_freeze":
            action = _one_of(conf, "freeze", "thaw", "override")
            return f"{_version(conf) if action == 'override' else _model_or_all(conf)}-{action}"
        case "finding_close":
            return _finding(conf)
        case "model_revalidation":
            return f"{_model_or_all(conf)}-revalidation"
        case "model_tuning" | "model_benchmark":
            asked = _model(conf) if conf.get("version") is None else _version(conf)
            return f"{asked}-{dag_id.removeprefix('model_')}"
        case "fleet_release":
            return f"{_version(conf, 'fleet')}-fleet"
        case "registry_sync":
            return f"{_model_or_all(conf)}-sync"
        case _:
            return None


def _model(conf: Mapping[str, Any]) -> str:
    return validate_model_name(conf.get("model"))


def _model_or_all(conf: Mapping[str, Any]) -> str:
    return EVERY_MODEL if conf.get("model") is None else _model(conf)


def _version(conf: Mapping[str, Any], of: str = "model") -> str:
    return f"{validate_model_name(conf.get(of))}-{parse_version(conf.get('version'))}"


def _finding(conf: Mapping[str, Any]) -> str | None:
    finding = conf.get("finding")
    if not isinstance(finding, str) or not _FINDING.fullmatch(finding) or ".." in finding:
        return None
    return f"{_model(conf)}-close-{finding}"


def _one_of(conf: Mapping[str, Any], *actions: str) -> str:
    """Return the form's action; the first one is its default."""
    asked = conf.get("action", actions[0])
    return asked if asked in actions else actions[0]
