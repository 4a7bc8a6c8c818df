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
    MODEL_RELEASE: "no release starts or goes on, and a canary whose step ends meanwhile is taken back as soon as "
    "its lease runs out, within about a minute",
    MODEL_ROLLBACK: "no rollback that somebody asks for begins",
    MODEL_INTAKE: "no version that lands starts its release",
    NOTIFICATION_DELIVERY: "no notice is sent",
    CANARY_PAUSE: "no canary is paused or resumed",
    VERSION_REJECTION: "no version is rejected",
    RELEASE_FREEZE: "nothing is frozen or thawed",
    FLEET_WATCH: "no fleet is watched",
}
"""What a DAG that is paused in Airflow keeps from happening."""
_REMEMBERED = timedelta(days=1)
_TEXT_LIMIT = 400


def deployment_warnings() -> tuple[str, ...]:
    """Return what is wrong, each in a sentence or two; it waits for a second at most."""
    found = [one.sentence for one in problems()]
    try:
        found += _answers.get("").value
    except SlipwayError as error:  # that Airflow's database is away shows by itself
        log.info("whether DAGs are paused is not known: %s", error)
    return tuple(found)


def told(paused: Iterable[str], unreadable: Any, at: datetime | None) -> tuple[str, ...]:
    """Return the warnings of what Airflow's database says.

    :param paused: the DAGs that are paused.
    :param unreadable: what `model_intake` has left in the XCom about messages that it could not read; None: nothing.
    :param at: when it did.
    """
    found = [
        f"The DAG {dag_id} is paused in Airflow: {PAUSED[dag_id]}. Unpause it there, by the toggle beside its name."
        for dag_id in PAUSED
        if dag_id in set(paused)
    ]
    if isinstance(unreadable, Mapping) and at is not None:
        reasons = unreadable.get("reasons")
        first = str(reasons[0]) if isinstance(reasons, list) and reasons else "no reason was kept"
        found.append(
            f"Messages of the intake queue cannot be read (last at {at:%Y-%m-%d %H:%M:%S} UTC); all of incoming/ was "
            f"looked at instead. {first[:_TEXT_LIMIT]}"
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
            return told(paused, None, None)
        return told(paused, XComModel.deserialize_value(last), last.timestamp)


_answers: Answers[str, tuple[str, ...]] = Answers(
    _ask, Patience(fresh_s=5.0, old_s=60.0, limit_s=1.0), threading.BoundedSemaphore(2)
)
