"""An act that is declared in one place has its verb, its button and form, its request and its run's name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
import typer.main
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import Request

from slipway.acts.carry_out import carry_out
from slipway.cli.main import make_app
from slipway.web.acts import buttons
from slipway.web.pages.model_acts import model_acts
from slipway.web.rendering import environment
from slipway.workflows import VERSION_PIN
from slipway_core.acts.act import Act, Command
from slipway_core.acts.requests import ActInput, request_of
from slipway_core.acts.run_name_parts import followed_by, version
from slipway_core.acts.run_names import run_name
from slipway_core.acts.situation import Availability, Available, Refused, Situation
from slipway_core.acts.table import ACTS
from slipway_core.errors import SlipwayError
from tests.support.cli.documents import document


def _possible(now: Situation) -> Availability:
    if now.version == now.document.live_version:
        return Refused("What is live is not praised.", now.look)
    return Available()


PRAISE = Act(
    name="praise_version",
    title="Praise",
    description="Says that the version is good.",
    means="start_run",
    workflow="pin",
    required=("model", "version", "reason"),
    possible=_possible,
    run_name=followed_by(version, "praise"),
    action="praise",
    places=frozenset({"model"}),
    command=Command("Say that a version is good.", ('slipway praise-version digits 3 -m "well done"',)),
)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The act is a line of the table, and nothing else."""
    monkeypatch.setitem(ACTS, PRAISE.name, PRAISE)


def test_the_command_has_its_verb() -> None:
    """With the arguments and options that its fields ask for, its text and its example."""
    root: Any = typer.main.get_command(make_app())
    verb = root.commands["praise-version"]
    assert {"model", "version", "reason", "wait", "timeout", "output"} <= {one.name for one in verb.params}
    assert {one.name for one in verb.params if one.required} == {"model", "version", "reason"}
    assert "Say that a version is good." in verb.help
    assert PRAISE.command.examples[0] in verb.help


def test_a_models_page_has_its_button_and_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form offers the versions for which it makes sense, and asks for the reason."""
    monkeypatch.setattr(buttons, "may", lambda _request, _user, act, _dag_id: act is PRAISE)
    monkeypatch.setattr(buttons, "make_token", lambda *_: "the token")
    request = cast(Request, _Request())
    [offered] = model_acts(request, cast(BaseUser, _User()), document(), ())
    assert [choice.version for choice in offered.choices] == [
        line.version for line in document().versions if line.version != document().live_version
    ]
    page = environment().get_template("model/acts.html.j2")
    shown = page.render(acts=[offered], root="/slipway", model="digits", line=None)
    assert 'action="/slipway/acts/praise_version"' in shown
    assert 'name="version"' in shown
    assert 'name="reason" rows="3" maxlength="500" minlength="3" required' in shown
    assert ">Praise</button>" in shown


def test_its_run_is_started_under_its_name() -> None:
    """The name is made of the values of the form, whoever fills it in."""
    airflow, asked = _Airflow(), ActInput(model="digits", version=3, reason="well done")
    done = asyncio.run(
        carry_out(airflow, PRAISE, request_of(PRAISE.name, asked), model="digits", nonce="c0ffee")
    )
    assert (done.dag_id, done.run_id) == (VERSION_PIN, "digits-3-praise-c0ffee")
    assert airflow.conf == {"model": "digits", "version": 3, "action": "praise", "reason": "well done"}
    assert run_name("pin", airflow.conf) == "digits-3-praise"


class _Airflow:
    """Starts what it is asked for."""

    conf: Mapping[str, Any] = {}

    async def get(self, *path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        raise AssertionError(path)

    async def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.conf = body["conf"]
        return {"dag_run_id": body["dag_run_id"]}

    async def patch(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError(path)

    def status_of(self, error: SlipwayError) -> int:
        raise AssertionError(error)


class _User:
    def get_name(self) -> str:
        return "anna"

    def get_id(self) -> str:
        return "1"


class _Request:
    class _App:
        class state:  # noqa: N801 - as Starlette has it
            secret_key = "secret"

    scope = {"slipway.airflow_app": _App}  # noqa: RUF012
