"""What a run of Airflow is called: the model, the version and what is done, whoever starts it.

`digits-2` is the first run that releases version 2 of `digits`, `digits-2-2` the second one. A run that an event or a
sweep starts has a digest of the upload behind it instead (`digits-2-1f0c3a9b`, `record.arrivals`): the same upload
twice starts it once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from slipway_core.acts.act import Act
from slipway_core.acts.run_name_parts import Conf, followed_by, model_or_all, version
from slipway_core.acts.table import ACTS
from slipway_core.errors import SlipwayError

_RUN_NAME_LIMIT = 200
_NUMBERS = range(2, 10_000)
_ATTEMPT = re.compile(r"(-[0-9A-Za-z]+)?")

_STARTED_BY_NO_ACT: dict[str, Callable[[Conf], str | None]] = {
    "revalidation": followed_by(model_or_all, "revalidation"),
    "fleet": lambda conf: f"{version(conf, 'fleet')}-fleet",
    "sync": followed_by(model_or_all, "sync"),
}
"""What runs of the workflows are called that people start in Airflow alone."""


def run_name(workflow: str, conf: Mapping[str, Any]) -> str | None:
    """Return what a run of a workflow with these values of its form is called; None if its own name says as much.

    A value that the workflow will refuse makes no name either.
    """
    act = _act_of(workflow, conf)
    make = _STARTED_BY_NO_ACT.get(workflow) if act is None else act.run_name
    try:
        name = None if make is None else make(conf)
    except SlipwayError:
        return None
    return None if name is None or len(name) > _RUN_NAME_LIMIT else name


def timed(workflow: str, name: str, at: datetime) -> str:
    """Return the name of a run that starts now: all but a release have the time behind it.

    What they write is found again by their run id, in the bucket, where it stays longer than Airflow keeps its runs.
    """
    return name if is_one_at_a_time(workflow) else f"{name}-{at:%Y%m%dT%H%M%S}"


def is_one_at_a_time(workflow: str) -> bool:
    """Return whether a workflow has one run about the same at a time."""
    return any(act.one_at_a_time for act in _acts_of(workflow))


def free_run_id(name: str, taken: Collection[str]) -> str:
    """Return the run id for the next run of that name: `name`, `name-2`, `name-3`, …

    :param taken: the run ids that the workflow has already.
    :raises ValueError: there are too many of them.
    """
    if name not in taken:
        return name
    number = next((one for one in _NUMBERS if f"{name}-{one}" not in taken), None)
    if number is None:
        raise ValueError(f"there are {len(taken)} runs named {name!r}")
    return f"{name}-{number}"


def is_about(workflow: str, run_id: str, conf: object, name: str) -> bool:
    """Return whether a run is about what runs of that name are about.

    Its form's values say so, whatever the run is called. Where they name nothing, its run id is looked at: one that
    begins with the name and has one more part is taken for another attempt, since a person may have chosen that.
    """
    named = run_name(workflow, conf) if isinstance(conf, Mapping) else None
    if named is not None:
        return named == name
    return run_id.startswith(name) and _ATTEMPT.fullmatch(run_id.removeprefix(name)) is not None


def _act_of(workflow: str, conf: Mapping[str, Any]) -> Act | None:
    """Return the act that starts such a run: that of the form's action, of which the first one is the default."""
    acts = _acts_of(workflow)
    action = conf.get("action")
    return next((act for act in acts if act.action and act.action == action), acts[0] if acts else None)


def _acts_of(workflow: str) -> list[Act]:
    return [act for act in ACTS.values() if act.workflow == workflow and act.means == "start_run"]
