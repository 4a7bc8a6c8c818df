"""The Airflow pools that the DAGs name: what may run side by side, whatever models it is for.

A task whose pool is not there waits for ever, and a task cannot ask for pools: so the scheduler, or whichever of
Airflow's jobs is first, makes them when it starts (`plugins/slipway_plugin.py`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RequiredPool:
    """A pool as it is made where it is missing. One that is there is left as its people have set it."""

    name: str
    slots: int
    description: str
    include_deferred: bool


STAGING_POOL = RequiredPool(
    name="slipway_staging",
    slots=1,
    description="Benchmarks on the staging Triton: one at a time, so that they do not disturb each other.",
    # A benchmark waits for its pod in the triggerer, and must hold its slot meanwhile.
    include_deferred=True,
)
REQUIRED_POOLS = (STAGING_POOL,)


def make_missing_pools() -> list[str]:
    """Make in Airflow's database the pools that are not there; only for processes that may write to it.

    :returns: the names of those made.
    """
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy.exc import IntegrityError

    made = []
    for pool in REQUIRED_POOLS:
        try:
            with create_session() as session:
                if Pool.get_pool(pool.name, session=session) is not None:
                    continue
                Pool.create_or_update_pool(
                    pool.name, pool.slots, pool.description, pool.include_deferred, session=session
                )
        except IntegrityError:
            # Another of Airflow's components has just made it.
            continue
        made.append(pool.name)
    return made
