"""The buttons of a model's page, and the versions that their forms offer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import Request

from include.model_release.acts.availability import Refused, Situation, availability
from include.model_release.acts.table import ActName
from include.model_release.read_model.documents import ModelDocument, VersionLine
from slipway.web.acts.buttons import Button, button

CHOICES_LIMIT = 50
"""Versions that a form offers, the newest ones."""


@dataclass(frozen=True)
class ModelBar:
    """What this person may do with a model; a button is None where Airflow does not let this person.

    :param back_to: versions that users can be led back to, newest first, without the one that was live before.
    :param rejectable: versions that are not rejected; `rejected` those that are.
    """

    release: Button | None
    rollback: Button | None
    reject: Button | None
    unreject: Button | None
    pin: Button | None
    freeze: Button | None
    before: int | None
    back_to: tuple[int, ...]
    rejectable: tuple[int, ...]
    rejected: tuple[int, ...]
    unpinned: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """Whether this person may do nothing here."""
        return (self.release, self.rollback, self.reject, self.pin, self.freeze) == (None,) * 5


def model_bar(request: Request, user: BaseUser, document: ModelDocument) -> ModelBar:
    """Return the buttons of a model's page."""
    now = Situation(document, person=str(user.get_name()))

    def made(name: ActName, label: str = "") -> Button | None:
        return button(request, user, name, now, label=label)

    def chosen(fits: Callable[[VersionLine], bool]) -> tuple[int, ...]:
        return tuple(line.version for line in document.versions if fits(line))[:CHOICES_LIMIT]

    rejected = chosen(lambda line: line.rejection is not None)
    live = document.live_version
    return ModelBar(
        release=made("release", "Release…"),
        rollback=made("rollback", "Roll back…"),
        reject=made("reject", "Reject…"),
        unreject=made("unreject", "Lift a rejection…") if rejected else None,
        pin=made("pin", "Pin…"),
        freeze=made("freeze", "Freeze…"),
        before=document.previous_version,
        back_to=chosen(
            lambda line: (
                live is not None
                and line.version < live
                and line.version != document.previous_version
                and not isinstance(availability("rollback", now.about(line.version)), Refused)
            )
        ),
        rejectable=chosen(lambda line: line.rejection is None),
        rejected=rejected,
        unpinned=chosen(lambda line: not line.pinned and not line.files_gone),
    )
