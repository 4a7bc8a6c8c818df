"""The inbox of what waits for a person, with the evidence inside."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from slipway.web.access import NotPermittedError, SignedIn
from slipway.web.acts.airflow_api import AirflowApi, AirflowRefusedError
from slipway.web.acts.buttons import Button
from slipway.web.acts.cross_site import make_token
from slipway.web.acts.rights import may
from slipway.web.acts.router import Api
from slipway.web.comparison.changes import Changes
from slipway.web.comparison.known_changes import known_changes
from slipway.web.headers import CONTENT_SECURITY_POLICY
from slipway.web.release.evidence import EvidenceLink, evidence_links
from slipway.web.release.questions import OpenQuestion, open_questions, question_shown, run_of
from slipway.web.rendering import render
from slipway.web.sources import Read, Sources
from slipway.workflows import REPOSITORY_GC
from slipway_core.acts.act import APPROVE, Act
from slipway_core.acts.situation import Refused
from slipway_core.acts.table import ACTS
from slipway_core.errors import SlipwayError

router = APIRouter()

# No HTML within it passes, and it loads no picture.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
# The page of a gate is shown in a frame: from here, and sandboxed by its own headers as well.
_POLICY = f"{CONTENT_SECURITY_POLICY}; frame-src 'self'"


@dataclass(frozen=True)
class InboxEntry:
    """A question with its buttons.

    :param ident: unlike any other's of the page.
    :param text: what the workflow shows, as HTML.
    :param why_not: why this person may not agree; "" where nothing is against it.
    """

    ident: str
    asked: OpenQuestion
    text: Markup
    links: tuple[EvidenceLink, ...]
    changes: Changes | None
    buttons: tuple[Button, ...]
    why_not: str

    @property
    def frame(self) -> EvidenceLink | None:
        """The report that is shown within the page."""
        return next((link for link in self.links if link.name.endswith(".html")), None)


@router.get("/approvals")
async def approvals(request: Request, sources: Read, user: SignedIn, api: Api) -> HTMLResponse:
    """Show what waits for a person."""
    found = await _questions(sources, api)
    entries = [
        await run_in_threadpool(_entry, request, sources, user, number, one)
        for number, one in enumerate(found)
    ]
    page = await run_in_threadpool(render, request, "release/approvals.html.j2", entries=entries)
    page.headers["Content-Security-Policy"] = _POLICY
    return page


@router.get("/api/approvals")
async def approvals_json(sources: Read, user: SignedIn, api: Api) -> dict[str, Any]:
    """Return what waits for a person, and why who asks may not agree; "" where nothing is against it."""
    found = await _questions(sources, api)
    person = str(user.get_name())
    return {"questions": [{**one.as_json(), "refusal": one.refusal(person)} for one in found]}


async def _questions(sources: Sources, api: AirflowApi) -> list[OpenQuestion]:
    try:
        details = await open_questions(api)
    except AirflowRefusedError as error:
        raise NotPermittedError("read the open approvals") from error
    runs = await asyncio.gather(*(run_of(api, detail) for detail in details))
    return [
        await run_in_threadpool(question_shown, sources, detail, run)
        for detail, run in zip(details, runs, strict=True)
    ]


def _entry(request: Request, sources: Sources, user: BaseUser, number: int, one: OpenQuestion) -> InboxEntry:
    why_not = one.refusal(str(user.get_name()))
    answers = [act for act in ACTS.values() if act.means == "answer"]
    made = [_button(request, user, act, number, one, why_not) for act in answers]
    return InboxEntry(
        f"question-{number}",
        one,
        Markup(_MARKDOWN.render(one.body)),  # noqa: S704 - HTML within the Markdown is escaped
        () if one.view is None else evidence_links(one.view),
        _changes(sources, one),
        tuple(button for button in made if button is not None),
        why_not,
    )


def _changes(sources: Sources, one: OpenQuestion) -> Changes | None:
    """Return what changed since the stable version; None where the question is about no release beside one."""
    if one.view is None or one.view.stable_version in (None, one.version):
        return None
    try:
        document = sources.read_model.known_model(one.model)
    except SlipwayError:
        return None
    return (
        None
        if document.problem
        else known_changes(sources.store, document.value, one.view.line, one.view.stable_version)
    )


def _button(
    request: Request, user: BaseUser, act: Act, number: int, one: OpenQuestion, why_not: str
) -> Button | None:
    asked, is_yes = one.question, act.answer == APPROVE
    if not may(request, user, act, asked.dag_id):
        return None
    refused = Refused(why_not, f"slipway approve {one.model}".strip()) if why_not and is_yes else None
    description = act.description
    if not is_yes and asked.dag_id == REPOSITORY_GC:
        description = "Declines the plan under your name. Nothing is deleted."
    return Button(
        act,
        f"act-{act.name}-{number}",
        description,
        make_token(AirflowApi(request).secret, str(user.get_id())),
        act.title,
        refused,
        {
            "question_dag": asked.dag_id,
            "question_run": asked.run_id,
            "question_task": asked.task_id,
            "question_index": str(asked.map_index),
        },
    )
