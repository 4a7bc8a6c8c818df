"""Buttons of a page: what this person may do here, each open to use or with the reason why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import Request

from slipway.web.acts.airflow_api import AirflowApi
from slipway.web.acts.cross_site import make_token
from slipway.web.acts.rights import may
from slipway_core.acts.act import Act
from slipway_core.acts.availability import availability
from slipway_core.acts.situation import Available, Refused, Situation


@dataclass(frozen=True)
class Button:
    """One act that a page offers.

    :param ident: unlike any other's of the page.
    :param description: what would happen.
    :param refused: why it makes no sense now, and what to type instead; None: it does.
    :param hidden: fields of the form that are not asked for.
    :param label: what the button says.
    """

    act: Act
    ident: str
    description: str
    token: str
    label: str
    refused: Refused | None = None
    hidden: Mapping[str, str] = field(default_factory=dict)

    @property
    def asks_reason(self) -> bool:
        """Whether the form has a field for the reason."""
        return "reason" in self.act.fields

    @property
    def needs_reason(self) -> bool:
        """Whether it must be filled in."""
        return "reason" in self.act.required


def button(
    request: Request,
    user: BaseUser,
    act: Act,
    situation: Situation,
    *,
    hidden: Mapping[str, str] | None = None,
    label: str = "",
    dag_id: str = "",
) -> Button | None:
    """Return the button of an act; None where Airflow does not let this person do it.

    :param hidden: fields of the form, beside the model and the version of the situation.
    :param label: what the button says; "": the act's title.
    :param dag_id: of an answer, the workflow that asks.
    """
    if not may(request, user, act, dag_id):
        return None
    offer = availability(act.name, situation)
    refused = offer if isinstance(offer, Refused) else None
    fields = {"model": situation.model} if "model" in act.fields else {}
    if "version" in act.fields and situation.version is not None:
        fields["version"] = str(situation.version)
    return Button(
        act,
        f"act-{act.name}" + ("" if situation.version is None else f"-{situation.version}"),
        offer.description or act.description if isinstance(offer, Available) else act.description,
        make_token(AirflowApi(request).secret, str(user.get_id())),
        label or act.title,
        refused,
        {**fields, **(hidden or {})},
    )


def buttons(
    request: Request,
    user: BaseUser,
    acts: Iterable[Act],
    situation: Situation,
    *,
    hidden: Mapping[str, str] | None = None,
) -> tuple[Button, ...]:
    """Return the buttons of several acts, without those that this person may not use."""
    made = (button(request, user, act, situation, hidden=hidden) for act in acts)
    return tuple(one for one in made if one is not None)
