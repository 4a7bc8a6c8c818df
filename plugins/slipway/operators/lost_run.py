"""The release run of a teardown whose first task's result is gone.

Airflow's `db clean` removes XComs of runs that are still under way. What a teardown needs is then taken from what it
does not remove: the run's own id and parameters, and the release file as it is now.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk import Variable

from slipway.dag_header import releases_dir
from slipway.release_run import ReleaseRun
from slipway.rollback_address import NamedService
from slipway_core.errors import InputMissingError
from slipway_core.identifiers import parse_version

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

BUCKET_VARIABLE = "slipway_bucket"
_NOTHING = frozenset({"", "null", "None"})


def is_lost(release: str) -> bool:
    """Return whether a task was given nothing where the first task's result should be."""
    return str(release).strip() in _NOTHING


def release_of_run(context: Context) -> str:
    """Return the release run as JSON, from what the run itself says.

    It names no stable version: the InferenceService notes it, and so does the record. No store is asked for it here.

    :raises InputMissingError: the run says neither model nor version, or nobody knows the bucket.
    """
    params: Any = context["params"]
    try:
        model, version = str(params["model"]), parse_version(params["version"])
        bucket = str(Variable.get(BUCKET_VARIABLE))
    except Exception as error:  # Airflow's own among them
        raise InputMissingError(
            "the result of this run's first task is gone, and the run does not have enough information to continue",
            expected=f"the parameters model and version, and the variable {BUCKET_VARIABLE}",
            found=f"{type(error).__name__}: {error}",
            remedy="roll the canary back with the DAG model_rollback, which needs only the model's name",
        ) from error
    log.warning("the result of this run's first task is gone; continuing with the run's own parameters")
    spec = NamedService.find(releases_dir(), model).stand_in_spec()
    release_run = ReleaseRun(
        release_id=context["run_id"], model=model, version=version, bucket=bucket, spec=spec, stable=None
    )
    return release_run.model_dump_json()
