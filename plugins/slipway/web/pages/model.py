"""The page of a model: what is live, what was before, its versions as a time line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from slipway.read_model.answers import Known
from slipway.web.access import SignedIn
from slipway.web.known_models import known_model
from slipway.web.pages.model_acts import closing_buttons, model_acts
from slipway.web.pages.overview import live_documents
from slipway.web.pages.overview_lines import OverviewLine, overview_lines
from slipway.web.rendering import render
from slipway.web.sources import Read
from slipway.web.unrecorded import unrecorded
from slipway_core.identifiers import parse_version, validate_model_name
from slipway_core.read_model.delivery import delivery_of
from slipway_core.read_model.documents import FreezeLine, ModelDocument, VersionLine
from slipway_core.read_model.live import LiveDocument

router = APIRouter()

PAGE_LENGTH = 50
"""Versions on one page."""


@dataclass(frozen=True)
class VersionsPage:
    """A part of the versions, newest first; `older_than` is where the next part begins, None at the end."""

    lines: tuple[VersionLine, ...]
    older_than: int | None
    is_first: bool
    total: int


@router.get("/models/{model}")
def model_page(
    request: Request,
    sources: Read,
    user: SignedIn,
    model: str,
    before: Annotated[int | None, Query(ge=1)] = None,
) -> HTMLResponse:
    """Show a model, with the versions before a number."""
    found = known_model(sources, model)
    document, freezes = found.value, sources.read_model.known_models()
    lives = live_documents(sources.read_model, {document.model: document})
    known = found.with_age_of(freezes, *lives.values())
    line = _line(document, lives, freezes.value.freezes)
    return render(
        request,
        "model/page.html.j2",
        known=known,
        model=document.model,
        document=document,
        unrecorded=unrecorded(sources, {document.model: document}, document.model),
        line=line,
        acts=model_acts(request, user, document, line.freezes, known.old),
        closing=closing_buttons(request, user, document, known.old),
        live=None if document.live_version is None else document.line(document.live_version),
        previous=None if document.previous_version is None else document.line(document.previous_version),
        versions=_part(document, before),
        delivery=delivery_of(document),
    )


@router.get("/models/{model}/diff")
def choose_diff(
    request: Request, model: str, a: Annotated[str, Query()] = "", b: Annotated[str, Query()] = ""
) -> Response:
    """Lead from the form of a model's page to the page of the two versions that were chosen."""
    name = validate_model_name(model)
    if not (a and b):
        raise HTTPException(422, "Choose two versions.")
    one, other = sorted((parse_version(a), parse_version(b)))
    return RedirectResponse(f"{request.scope.get('root_path', '')}/models/{name}/diff/{one}/{other}", 303)


def _line(
    document: ModelDocument, lives: Mapping[str, Known[LiveDocument]], everywhere: Iterable[FreezeLine]
) -> OverviewLine:
    watched = {name: live.value for name, live in lives.items()}
    return overview_lines({document.model: document}, watched, everywhere, datetime.now(UTC))[0]


def _part(document: ModelDocument, before: int | None) -> VersionsPage:
    left = [one for one in document.versions if before is None or one.version < before]
    shown = tuple(left[:PAGE_LENGTH])
    return VersionsPage(
        lines=shown,
        older_than=shown[-1].version if len(left) > len(shown) else None,
        is_first=before is None,
        total=len(document.versions),
    )
