"""The page of a release, and the small document by which it knows that there is something new."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from slipway.acts.questions import question_of
from slipway.web.access import SignedIn
from slipway.web.acts.buttons import Button, button, buttons
from slipway.web.comparison.changes import Changes
from slipway.web.comparison.known_changes import known_changes
from slipway.web.release.evidence import evidence_links
from slipway.web.release.shown import ReleasePage, follow, release_page
from slipway.web.rendering import render
from slipway.web.sources import Read, Sources
from slipway.web.unrecorded import unrecorded
from slipway.workflows import MODEL_RELEASE
from slipway_core.acts.act import Act, Place
from slipway_core.acts.releasing import RELEASE
from slipway_core.acts.situation import has_users
from slipway_core.acts.table import ACTS
from slipway_core.acts.taking_back import ROLLBACK
from slipway_core.errors import InputMissingError, UnknownModelError
from slipway_core.identifiers import parse_version, validate_model_name
from slipway_core.read_model.documents import OpenRelease

router = APIRouter()


@router.get("/models/{model}/versions/{version}")
def release(request: Request, sources: Read, user: SignedIn, model: str, version: str) -> HTMLResponse:
    """Show a release: where it stands, or how it ended."""
    name, number = validate_model_name(model), parse_version(version)
    try:
        page = release_page(sources.read_model, name, number)
    except (InputMissingError, UnknownModelError):
        shown = _unrecorded_page(request, sources, name, number)
        if shown is None:
            raise
        return shown
    now = datetime.now(UTC)
    return render(
        request,
        "release/page.html.j2",
        page=page,
        known=page.followed.known,
        line=page.line,
        view=page.view,
        top=page.top,
        open=page.followed.open,
        live=page.followed.live,
        silent_s=page.followed.silent_s(now),
        ends=None if page.is_over else page.ends(now),
        changes=_changes(sources, page),
        links=evidence_links(page.view),
        buttons=_buttons(request, user, page),
    )


def _unrecorded_page(request: Request, sources: Sources, model: str, version: int) -> HTMLResponse | None:
    """Return the page of a version that no record knows; None: nothing is known of it at all."""
    found = unrecorded(sources, {}, model)
    runs = [run for run in found.runs_of(model) if run.version == version]
    problems = [one for one in found.unusable_of(model) if one.version == version]
    if not runs and not problems:
        return None
    return render(
        request,
        "release/unrecorded.html.j2",
        model=model,
        version=version,
        runs=runs,
        problems=problems,
        unrecorded=found,
    )


@router.get("/api/models/{model}/versions/{version}/pulse")
def pulse(sources: Read, model: str, version: str) -> dict[str, Any]:
    """Return what an open page asks for every two seconds: whether anything has changed, from two documents."""
    followed = follow(sources.read_model, validate_model_name(model), parse_version(version))
    return {
        "stamp": followed.stamp,
        "silent_s": followed.silent_s(datetime.now(UTC)),
        "problem": followed.problem,
    }


def _changes(sources: Sources, page: ReleasePage) -> Changes | None:
    """Return what changed since the stable version; None where there is none, or the store does not answer anyway."""
    stable = page.view.stable_version
    if stable is None or stable == page.line.version or page.followed.problem:
        return None
    return known_changes(sources.store, page.followed.document, page.line, stable)


def _buttons(request: Request, user: BaseUser, page: ReleasePage) -> tuple[Button, ...]:
    """Return what this person may do here, the most urgent first."""
    now, followed = page.situation(str(user.get_name())), page.followed
    if followed.open is None:
        return _buttons_afterwards(request, user, page)
    question = question_of(followed.open)
    about = {"release_id": followed.open.release_id}
    asked = (
        {}
        if question is None
        else {
            "question_dag": question.dag_id,
            "question_run": question.run_id,
            "question_task": question.task_id,
            "question_index": str(question.map_index),
        }
    )
    dag_id = MODEL_RELEASE if question is None else question.dag_id
    answers = [act for act in _offered("open_release") if act.means == "answer"]
    answering = [button(request, user, act, now, hidden=asked, dag_id=dag_id) for act in answers]
    # Without a version: off the canary, to whatever has the other users.
    steering = buttons(request, user, _steering(followed.open), now.about(None), hidden=about)
    made = [*answering, *steering] if question is not None else [*steering, *answering]
    return tuple(one for one in made if one is not None)


def _offered(place: Place) -> list[Act]:
    return [act for act in ACTS.values() if place in act.places]


def _steering(release: OpenRelease) -> list[Act]:
    """Return the acts on a release under way: one without users is aborted, since a roll back would lead users off what
    is live.
    """
    acts = [act for act in _offered("open_release") if act.means != "answer"]
    return [act for act in acts if act is not ROLLBACK or has_users(release)]


def _buttons_afterwards(request: Request, user: BaseUser, page: ReleasePage) -> tuple[Button, ...]:
    now, line, live = page.situation(str(user.get_name())), page.line, page.followed.document.live_version
    made: list[Button | None] = []
    if line.version == live:
        made.append(button(request, user, ROLLBACK, now.about(None)))
    elif line.standing == "promoted":
        label = f"Roll back to {line.version}"
        made.append(button(request, user, ROLLBACK, now, hidden={"version": str(line.version)}, label=label))
    else:
        again = {"force": "true"} if line.standing else {}
        label = "Release again" if line.release_id and not line.rejected_only else "Release"
        made.append(button(request, user, RELEASE, now.forced(bool(again)), hidden=again, label=label))
    made += [
        one
        for one in buttons(request, user, _offered("ended_release"), now)
        # What lifts something is offered where there is something to lift.
        if one.refused is None or one.act.on_old_data
    ]
    return tuple(one for one in made if one is not None)
