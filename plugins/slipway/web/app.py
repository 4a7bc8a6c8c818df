"""The application that Airflow mounts at `/slipway`: its routers, who may ask them, and how it answers."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from fastapi import APIRouter, Depends, FastAPI

from slipway.web import fleets, json_api, metrics, pages, static_files
from slipway.web.access import may_read, signed_in
from slipway.web.acts import router as acts
from slipway.web.answers import add_error_answers
from slipway.web.audit import routes as audit
from slipway.web.headers import SecurityHeaders
from slipway.web.prompt import start_syncs, webhook_secret
from slipway.web.release import approvals
from slipway.web.release import page as release_pages
from slipway.web.webhook import make_webhook_router


def routers() -> Sequence[APIRouter]:
    """Return every router of pages and of the JSON API; a module in `pages/` that has a `router` is found there.

    Each of them asks `may_read` before anything else, so no route can forget it. What a route asks beyond that (an
    act, the audit), it names itself.
    """
    return (
        acts.router,
        release_pages.router,
        approvals.router,
        *_routers_of_pages(),
        audit.router,
        json_api.router,
        fleets.router,
        metrics.router,
    )


def _routers_of_pages() -> Iterator[APIRouter]:
    for found in pkgutil.iter_modules(pages.__path__):
        router = getattr(import_module(f"{pages.__name__}.{found.name}"), "router", None)
        if isinstance(router, APIRouter):
            yield router


def make_app(
    secret: Callable[[], str] = webhook_secret, start: Callable[[str, str], list[str]] = start_syncs
) -> FastAPI:
    """Return the application that Airflow mounts.

    :param secret: what MLflow signs with; empty: no webhook is taken.
    :param start: starts the syncs of a registered model, for a delivery; returns the runs' ids.
    """
    # Nobody needs a description of it, least of all one that is open to everybody.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_error_answers(app)
    app.add_middleware(SecurityHeaders)
    app.include_router(make_webhook_router(secret, start))
    app.include_router(static_files.router, dependencies=[Depends(signed_in)])
    for router in routers():
        app.include_router(router, dependencies=[Depends(may_read)])
    return app
