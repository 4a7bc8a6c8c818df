"""What a person may do on a model's page, with what each form offers: versions that landed, versions to go back to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import Request

from slipway.web.acts.buttons import Button, button
from slipway_core.acts.availability import Available, Situation, availability
from slipway_core.acts.table import ACTS, ActName
from slipway_core.read_model.documents import FreezeLine, ModelDocument, VersionLine

CHOICES = 50
"""Versions that a form offers, the newest ones."""


@dataclass(frozen=True)
class Choice:
    """A version that a form offers; `told` is how it stands."""

    version: int
    told: str


@dataclass(frozen=True)
class ModelAct:
    """A button, the versions that its form offers, and what else it asks for.

    :param lists_landed: the form asks for what has landed when it opens: a page costs no listing of the bucket.
    """

    button: Button
    choices: tuple[Choice, ...] = ()
    asks_until: bool = False
    lists_landed: bool = False


def model_acts(
    request: Request, user: BaseUser, document: ModelDocument, freezes: Sequence[FreezeLine], old: str = ""
) -> list[ModelAct]:
    """Return what this person may do with a model.

    :param old: why the document may be old; "": it is not.
    """
    own = [one for one in document.freezes if one in freezes]
    now = Situation(document, person=str(user.get_name()), freezes=own, old=old)

    def act(name: ActName, choices: tuple[Choice, ...] = (), **asked: bool) -> ModelAct | None:
        made = button(request, user, name, now, label=f"{ACTS[name].title}…")
        return None if made is None else ModelAct(made, choices, **asked)

    acts = [act("release", lists_landed=True), act("rollback", _to_go_back_to(now))]
    for name, choices in _about_versions(document):
        acts += [act(name, choices)] if choices else []
    acts += [act("freeze", asks_until=True)]
    acts += [act("thaw")] if own else []
    return [one for one in acts if one is not None]


def closing_buttons(
    request: Request, user: BaseUser, document: ModelDocument, old: str = ""
) -> dict[str, Button]:
    """Return the button that closes each finding, by the finding's name; `old` as for `model_acts`."""
    findings = [one.name for one in document.findings]
    now = Situation(document, person=str(user.get_name()), findings=findings, old=old)
    made = {
        one.name: button(request, user, "close_finding", now, hidden={"finding": one.name})
        for one in document.findings
    }
    return {
        name: replace(found, ident=f"{found.ident}-{place}")
        for place, (name, found) in enumerate(made.items())
        if found is not None
    }


def _about_versions(document: ModelDocument) -> tuple[tuple[ActName, tuple[Choice, ...]], ...]:
    """Return the acts about one version of several, each with those that it makes sense for."""

    def those(fits: Callable[[VersionLine], bool]) -> tuple[Choice, ...]:
        chosen = [line for line in document.versions if fits(line)][:CHOICES]
        return tuple(Choice(line.version, _stands(line, document)) for line in chosen)

    return (
        ("reject", those(lambda line: line.rejection is None)),
        ("unreject", those(lambda line: line.rejection is not None)),
        ("pin", those(lambda line: not line.pinned and not line.files_gone)),
        ("unpin", those(lambda line: line.pinned)),
    )


def _to_go_back_to(now: Situation) -> tuple[Choice, ...]:
    """Return the older versions that users can be led back to, the one that was live before first."""
    document, live = now.document, now.document.live_version
    there = [
        line.version
        for line in document.versions
        if live is not None
        and line.version < live
        and isinstance(availability("rollback", now.about(line.version)), Available)
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
