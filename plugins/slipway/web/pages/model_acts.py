"""What a person may do on a model's page, with what each form offers: versions that landed, versions to go back to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import Request

from include.model_release.acts.availability import Situation
from include.model_release.acts.table import ActName
from include.model_release.errors import SlipwayError
from include.model_release.read_model.documents import FreezeLine, ModelDocument
from slipway.web.acts.buttons import Button, button
from slipway.web.landed import LandedVersion, landed_versions
from slipway.web.sources import Sources

log = logging.getLogger(__name__)

CHOICES = 50
"""Versions that a form offers, the newest ones."""


@dataclass(frozen=True)
class Choice:
    """A version that a form offers; `told` is how it stands."""

    version: int
    told: str


@dataclass(frozen=True)
class ModelAct:
    """A button, the versions that its form offers, and whether it asks for a moment."""

    button: Button
    choices: tuple[Choice, ...] = ()
    asks_until: bool = False


def model_acts(
    request: Request,
    user: BaseUser,
    sources: Sources,
    document: ModelDocument,
    freezes: Sequence[FreezeLine],
) -> list[ModelAct]:
    """Return what this person may do with a model."""
    person = str(user.get_name())
    now = Situation(document, person=person, freezes=[one for one in document.freezes if one in freezes])
    acts = [
        _release(request, user, sources, now),
        _rollback(request, user, now),
        _plain(request, user, "freeze", now, asks_until=True),
        _plain(request, user, "thaw", now),
    ]
    return [one for one in acts if one is not None]


def closing_buttons(request: Request, user: BaseUser, document: ModelDocument) -> dict[str, Button]:
    """Return the button that closes each finding, by the finding's name."""
    now = Situation(document, person=str(user.get_name()), findings=[one.name for one in document.findings])
    made = {
        one.name: button(request, user, "close_finding", now, hidden={"finding": one.name})
        for one in document.findings
    }
    return {
        name: replace(found, ident=f"{found.ident}-{place}")
        for place, (name, found) in enumerate(made.items())
        if found is not None
    }


def _plain(
    request: Request, user: BaseUser, name: ActName, now: Situation, *, asks_until: bool = False
) -> ModelAct | None:
    made = button(request, user, name, now)
    return None if made is None else ModelAct(made, asks_until=asks_until)


def _release(request: Request, user: BaseUser, sources: Sources, now: Situation) -> ModelAct | None:
    made = button(request, user, "release", now)
    if made is None:
        return None
    try:
        landed = landed_versions(sources, now.model).versions
    except SlipwayError as error:
        log.info("the form of %s offers no version: %s", now.model, error)
        landed = ()
    offered = [
        one for one in landed if one.is_complete is not False and not one.standing and not one.is_rejected
    ]
    return ModelAct(made, tuple(Choice(one.version, _stands(one, now)) for one in offered[:CHOICES]))


def _rollback(request: Request, user: BaseUser, now: Situation) -> ModelAct | None:
    made = button(request, user, "rollback", now)
    if made is None:
        return None
    document = now.document
    there = [
        line
        for line in document.versions
        if line.standing == "promoted"
        and line.version != document.live_version
        and line.rejection is None
        and not line.files_gone
    ]
    # The one that was live before comes first.
    there.sort(key=lambda line: (line.version != document.previous_version, -line.version))
    choices = tuple(
        Choice(line.version, "live before" if line.version == document.previous_version else "was promoted")
        for line in there[:CHOICES]
    )
    return ModelAct(made, choices)


def _stands(one: LandedVersion, now: Situation) -> str:
    if now.open is not None and now.open.version == one.version:
        return "under way"
    if one.version == now.document.live_version:
        return "live"
    return "new" if one.outcome is None else one.outcome.replace("_", " ")
