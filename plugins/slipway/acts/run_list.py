"""The runs of a DAG as Airflow lists them, page by page: all of them, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.acts.airflow import Airflow
from slipway_core.errors import SlipwayError, UserError

PAGE_RUNS = 100
"""Runs in one request; a server may be configured to return fewer."""
MOST_RUNS = 2000


class UnusableAnswerError(SlipwayError):
    """Airflow's answer lacks a part, so nothing can be concluded from it."""


class TooManyRunsError(UserError):
    """Airflow has more such runs than are read."""


async def runs_of(airflow: Airflow, dag_id: str, **wanted: Any) -> list[Mapping[str, Any]]:
    """Return the runs of a DAG, newest first.

    :param wanted: Airflow's own parameters that choose among the runs, such as `state`.
    :raises UnusableAnswerError: an answer lacks `dag_runs` or `total_entries`, or they have another type.
    :raises TooManyRunsError: there are more than `MOST_RUNS`.
    :raises SlipwayError: the client's.
    """
    found: dict[str, Mapping[str, Any]] = {}
    offset = 0
    while True:
        params = {**wanted, "limit": PAGE_RUNS, "offset": offset, "order_by": "-run_after"}
        answer = await airflow.get("dags", dag_id, "dagRuns", params=params)
        page, total = _part(answer, "dag_runs", list, dag_id), _part(answer, "total_entries", int, dag_id)
        if total > MOST_RUNS:
            raise TooManyRunsError(
                f"Airflow has too many runs of {dag_id} to check them all",
                expected=f"at most {MOST_RUNS}",
                found=str(total),
                remedy="delete old runs or end those that hang, then try again; or start the run in Airflow",
            )
        found |= {str(run.get("dag_run_id")): run for run in page}
        if not page or offset + len(page) >= total:
            return list(found.values())
        # Pages overlap: runs that start or end between two requests move the others by some places.
        offset += len(page) - len(page) // 10


def _part(answer: Mapping[str, Any], key: str, kind: type[Any], dag_id: str) -> Any:
    value = answer.get(key)
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise UnusableAnswerError(
        f"Airflow's list of the runs of {dag_id} is unusable",
        expected=f"`{key}`, a {kind.__name__}",
        found=f"no `{key}`" if key not in answer else type(value).__name__,
        remedy="check that Airflow's version is supported, and what is between it and this client",
    )
