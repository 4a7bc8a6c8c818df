"""What a person may do on a model's page, with what each form offers: versions that landed, versions to go back to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import Request

from slipway.web.acts.buttons import Button, button
from slipway_core.acts.act import Act
from slipway_core.acts.availability import availability
from slipway_core.acts.measuring import CLOSE_FINDING
from slipway_core.acts.situation import Available, Situation
from slipway_core.acts.table import ACTS
from slipway_core.read_model.documents import FreezeLine, ModelDocument, VersionLine

CHOICES = 50
"""Versions that a form offers, the newest ones."""


@dataclass(frozen=True)
class Choice:
    """A version that a form offers; `state` is its state, in words."""

    version: int
    state: str


@dataclass(frozen=True)
class ModelAct:
    """A button, and the versions that its form offers.

    What has landed is asked for when the form opens: a page costs no listing of the bucket.
    """

    button: Button
    choices: tuple[Choice, ...] = ()


def model_acts(
    request: Request, user: BaseUser, document: ModelDocument, freezes: Sequence[FreezeLine], old: str = ""
) -> list[ModelAct]:
    """Return what this person may do with a model.

    :param old: why the document may be old; "": it is not.
    """
    own = [one for one in document.freezes if one in freezes]
    now = Situation(document, person=str(user.get_name()), freezes=own, old=old)

    offered = [act for act in ACTS.values() if "model" in act.places]
    made = (_model_act(request, user, act, now) for act in offered)
    return [one for one in made if one is not None]


def _model_act(request: Request, user: BaseUser, act: Act, now: Situation) -> ModelAct | None:
    """Return an act with what its form offers; None where it makes sense for nothing, or this person may not do it.

    By what may be old nothing is left out: then the button says why it cannot be used.
    """
    choices: tuple[Choice, ...] = ()
    if act.offered == "older":
        choices = _to_go_back_to(act, now)
    elif "version" not in act.required:
        if not isinstance(act.possible(now), Available):
            return None
    elif act.offered == "fitting":
        choices = _fitting(act, now)
        if not choices:
            return None
    made = button(request, user, act, now, label=f"{act.title}…")
    return None if made is None else ModelAct(made, choices)


def closing_buttons(
    request: Request, user: BaseUser, document: ModelDocument, old: str = ""
) -> dict[str, Button]:
    """Return the button that closes each finding, by the finding's name; `old` as for `model_acts`."""
    findings = [one.name for one in document.findings]
    now = Situation(document, person=str(user.get_name()), findings=findings, old=old)
    made = {
        one.name: button(request, user, CLOSE_FINDING, now, hidden={"finding": one.name})
        for one in document.findings
    }
    return {
        name: replace(found, ident=f"{found.ident}-{place}")
        for place, (name, found) in enumerate(made.items())
        if found is not None
    }


def _fitting(act: Act, now: Situation) -> tuple[Choice, ...]:
    """Return the versions for which an act makes sense."""
    document = now.document
    there = [
        line for line in document.versions if isinstance(act.possible(now.about(line.version)), Available)
    ]
    return tuple(Choice(line.version, _stands(line, document)) for line in there[:CHOICES])


def _to_go_back_to(act: Act, now: Situation) -> tuple[Choice, ...]:
    """Return the older versions that users can be led back to, the one that was live before first."""
    document, live = now.document, now.document.live_version
    there = [
        line.version
        for line in document.versions
        if live is not None
        and line.version < live
        and isinstance(availability(act.name, now.about(line.version)), Available)
    ]
    there.sort(key=lambda version: (version != document.previous_version, -version))
    return tuple(
        Choice(version, "live before" if version == document.previous_version else "was promoted")
        for version in there[:CHOICES]
    )


def _stands(line: VersionLine, document: ModelDocument) -> str:
    if line.version == document.live_version:
        return "live"
    return "under way" if line.outcome == "open" else line.outcome.replace("_", " ")
