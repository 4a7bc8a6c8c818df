"""What is answered where something is wrong: a page in plain words for a browser, JSON for a program."""

from __future__ import annotations

import logging
from http import HTTPStatus
from urllib.parse import urlencode

from airflow.api_fastapi.app import get_cookie_path
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from slipway.web.access import NotPermittedError, StrangerError
from slipway.web.rendering import path_below_mount, render
from slipway_core.errors import (
    InputMissingError,
    SlipwayError,
    StoreUnavailableError,
    TransientError,
    UnknownModelError,
    UserError,
    VersionInvalidError,
)

log = logging.getLogger(__name__)

PROGRAMS = ("/api/", "/webhooks/", "/metrics")
"""What no person's browser asks for: a stranger is not led to a login there."""
POLL_HEADER = "slipway-poll"
"""A page's own script sends it: such a request is answered 401, not led to the login."""


def add_error_answers(app: FastAPI) -> None:
    """Give the application its answers to what goes wrong."""
    app.add_exception_handler(StrangerError, _stranger)
    app.add_exception_handler(NotPermittedError, _not_permitted)
    app.add_exception_handler(SlipwayError, _slipway_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def problem(request: Request, status: int, what: str, remedy: str = "") -> Response:
    """Return the answer to a request that cannot be served.

    :param what: what is wrong, as a sentence.
    :param remedy: what the person can do, as a sentence.
    """
    if _is_for_a_program(request):
        return JSONResponse({"detail": what, "remedy": remedy}, status)
    return render(
        request,
        "problem.html.j2",
        status=status,
        title=HTTPStatus(status).phrase.capitalize(),
        what=what,
        remedy=_as_sentence(remedy),
    )


def _is_for_a_program(request: Request) -> bool:
    return path_below_mount(request).startswith(PROGRAMS) or POLL_HEADER in request.headers


def _stranger(request: Request, error: Exception) -> Response:
    if _is_for_a_program(request) or request.method != "GET":
        return problem(request, 401, "Nobody is signed in.", "Sign in to Airflow, then try again.")
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    login = f"{get_cookie_path()}api/v2/auth/login?{urlencode({'next': asked})}"
    return RedirectResponse(login, 303)


def _not_permitted(request: Request, error: Exception) -> Response:
    return problem(
        request, 403, f"You may not {error}.", "Ask an Airflow administrator for a role with this right."
    )


def _slipway_error(request: Request, error: Exception) -> Response:
    if isinstance(error, InputMissingError | UnknownModelError | VersionInvalidError):
        return problem(request, 404, _sentence(error), error.remedy or "")
    if isinstance(error, UserError):
        return problem(request, 409, _sentence(error), error.remedy or "")
    if isinstance(error, TransientError) and not isinstance(error, StoreUnavailableError):
        return problem(request, 503, _sentence(error), error.remedy or "")
    if isinstance(error, TransientError):
        log.warning("a page could not be rendered: %s", error)
        return problem(
            request,
            503,
            "Storage is not answering; there is nothing current to show.",
            "Try again in a moment. Releases, the judge and rollbacks do not depend on this page.",
        )
    log.error("a page could not be rendered: %s", error)
    return problem(request, 500, "Slipway could not answer.", "The API server's log says why.")


def _sentence(error: Exception) -> str:
    assert isinstance(error, SlipwayError)  # noqa: S101 - for the type
    return _as_sentence(error.in_short())


def _as_sentence(text: str) -> str:
    """Return an error's words with a capital and a full stop; "" for none."""
    words = text.strip().rstrip(".")
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - for the type
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return problem(request, 422, f"{place}: {first['msg']}.", "Correct the address or the form.")


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type
    messages = {
        404: "There is no such page.",
        405: "This address does not support that method.",
    }
    what = str(error.detail)
    if what == HTTPStatus(error.status_code).phrase:
        what = messages.get(error.status_code, f"{what}.")
    answer = problem(request, error.status_code, what)
    answer.headers.update(error.headers or {})
    return answer
