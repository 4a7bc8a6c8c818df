"""The overview: a line for each model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from slipway.read_model.answers import Known
from slipway.read_model.reader import ReadModel
from slipway.web.known_models import with_those_never_released
from slipway.web.pages.overview_lines import SHOWS, Show, chosen, overview_lines
from slipway.web.rendering import render
from slipway.web.sources import Read
from slipway.web.unrecorded import unrecorded
from slipway_core.errors import SlipwayError
from slipway_core.read_model.documents import ModelDocument, Unreadable
from slipway_core.read_model.live import LiveDocument

log = logging.getLogger(__name__)
router = APIRouter()


@router.get("/")
def overview(
    request: Request,
    sources: Read,
    q: Annotated[str, Query(max_length=1000)] = "",
    show: Show = "all",
) -> HTMLResponse:
    """Show every model, or those that are searched for."""
    known, now = sources.read_model.known_models(), datetime.now(UTC)
    models = with_those_never_released(known.value.models)
    lines = overview_lines(models, known.value.lives, known.value.freezes, now)
    return render(
        request,
        "overview/page.html.j2",
        known=known,
        unrecorded=unrecorded(sources, models),
        everywhere=known.value.freezes,
        overview=chosen(lines, q, show),
        shows=SHOWS,
    )


def live_documents(
    read_model: ReadModel, models: Mapping[str, ModelDocument | Unreadable]
) -> dict[str, Known[LiveDocument]]:
    """Return where the watch stands of each canary that is under way; without one that cannot be read now."""
    found: dict[str, Known[LiveDocument]] = {}
    for name, document in models.items():
        release = document.open_release if isinstance(document, ModelDocument) else None
        if release is None or not release.step:
            continue
        try:
            live = read_model.known_live(name)
        except SlipwayError as error:
            log.info("the overview is without the live document of %s: %s", name, error)
            continue
        if live.value is not None:
            found[name] = Known(live.value, live.read_at, live.problem)
    return found
