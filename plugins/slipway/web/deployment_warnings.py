"""What is wrong with the deployment as a whole, for every page and the command line: settings, paused DAGs, messages.

Settings are those of this process, which has the same environment as the other parts of Airflow. The rest lies in
Airflow's database, which is asked in a thread and never waited for longer than a second.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.deployment.settings import problems
from slipway.failures import UNREADABLE_KEY
from slipway.read_model.answers import Answers, Patience
from slipway.workflows import (
    CANARY_PAUSE,
    FLEET_WATCH,
    MODEL_INTAKE,
    MODEL_RELEASE,
    MODEL_ROLLBACK,
    NOTIFICATION_DELIVERY,
    RELEASE_FREEZE,
    VERSION_REJECTION,
)
from slipway_core.errors import SlipwayError

log = logging.getLogger(__name__)

PAUSED: Mapping[str, str] = {
    MODEL_RELEASE: "no release starts or continues, and a canary whose step ends is rolled back when its lease "
    "expires, within about a minute",
    MODEL_ROLLBACK: "rollbacks that people request do not start",
    MODEL_INTAKE: "uploaded versions do not start their releases",
    NOTIFICATION_DELIVERY: "no notices are sent",
    CANARY_PAUSE: "canaries cannot be paused or resumed",
    VERSION_REJECTION: "versions cannot be rejected",
    RELEASE_FREEZE: "freezes cannot be set or lifted",
    FLEET_WATCH: "fleets are not watched",
}
"""What does not happen while a DAG is paused in Airflow."""
_REMEMBERED = timedelta(days=1)
_TEXT_LIMIT = 400


def deployment_warnings() -> tuple[str, ...]:
    """Return what is wrong, each in a sentence or two; it waits for a second at most."""
    found = [one.sentence for one in problems()]
    try:
        found += _answers.get("").value
    except SlipwayError as error:  # that Airflow's database is away shows by itself
        log.info("it is unknown whether DAGs are paused: %s", error)
    return tuple(found)


def warnings_of(paused: Iterable[str], unreadable: Any, at: datetime | None) -> tuple[str, ...]:
    """Return the warnings of what Airflow's database says.

    :param paused: the DAGs that are paused.
    :param unreadable: what `model_intake` has left in the XCom about messages that it could not read; None: nothing.
    :param at: when it did.
    """
    found = [
        f"The DAG {dag_id} is paused in Airflow: {PAUSED[dag_id]}. Unpause it there with the toggle next to its name."
        for dag_id in PAUSED
        if dag_id in set(paused)
    ]
    if isinstance(unreadable, Mapping) and at is not None:
        reasons = unreadable.get("reasons")
        first = str(reasons[0]) if isinstance(reasons, list) and reasons else "no reason was kept"
        found.append(
            f"Messages of the intake queue cannot be read (last at {at:%Y-%m-%d %H:%M:%S} UTC); all of incoming/ "
            f"was scanned instead. {first[:_TEXT_LIMIT]}"
        )
    return tuple(found)


def _ask(_: str) -> tuple[str, ...]:
    from airflow.models import DagModel
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    now = datetime.now(UTC)
    with create_session() as session:
        paused = list(
            session.scalars(
                select(DagModel.dag_id).where(
                    DagModel.dag_id.in_(tuple(PAUSED)), DagModel.is_paused.is_(True)
                )
            )
        )
        last = session.execute(
            select(XComModel.value, XComModel.timestamp)
            .where(
                XComModel.dag_id == MODEL_INTAKE,
                XComModel.key == UNREADABLE_KEY,
                XComModel.timestamp > now - _REMEMBERED,
            )
            .order_by(XComModel.timestamp.desc())
            .limit(1)
        ).first()
        if last is None:
            return warnings_of(paused, None, None)
        return warnings_of(paused, XComModel.deserialize_value(last), last.timestamp)


_answers: Answers[str, tuple[str, ...]] = Answers(
    _ask, Patience(fresh_s=5.0, old_s=60.0, limit_s=1.0), threading.BoundedSemaphore(2)
)
