"""What a task tells of its run, for the run's note in Airflow's UI.

It travels as an XCom, which the API server takes and writes into the note (`slipway.web.run_requests`): a task has no
other way to Airflow's database.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)

NOTE_KEY = "run_note"
"""The XCom's key."""


def tell_run(context: Mapping[str, Any], note: str) -> None:
    """Tell where the run stands; whether anybody hears it changes nothing for the task."""
    try:
        context["ti"].xcom_push(NOTE_KEY, note)
    except Exception as error:  # a note is worth no failure
        log.debug("the run's note could not be told: %s", error)
