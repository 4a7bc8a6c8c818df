"""What a task says about its run, for the run's note in Airflow's UI.

It travels as an XCom, which the API server takes and writes into the note (`slipway.web.run_requests`): a task has no
other way to Airflow's database. Cheap to import, because the plugin does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from slipway.page_addresses import model_page, release_page
from slipway_core.operations.run_notes import note_of, release_note

log = logging.getLogger(__name__)

NOTE_KEY = "run_note"
"""The XCom's key."""


def tell_release(context: Mapping[str, Any], model: object, version: object, text: str) -> None:
    """Tell where the release of a version stands, or how it ended."""
    _tell(context, release_note(model, version, text, release_page(model, version)))


def tell_act(context: Mapping[str, Any], model: object, text: str) -> None:
    """Tell what a run has done that a person asked for, about a model or, with None, about every one."""
    _tell(context, note_of("all models" if model is None else str(model), text, model_page(model)))


def tell_fleet(context: Mapping[str, Any], fleet: object, version: object, text: str, page: str) -> None:
    """Tell where the release of a version to a fleet stands, or how it ended.

    :param page: the address of the version's page; "": none.
    """
    _tell(context, release_note(fleet, version, text, page))


def _tell(context: Mapping[str, Any], note: str) -> None:
    """Whether anybody hears it changes nothing for the task."""
    try:
        context["ti"].xcom_push(NOTE_KEY, note)
    except Exception as error:  # a note is worth no failure
        log.debug("the run's note could not be written: %s", error)
