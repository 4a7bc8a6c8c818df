"""The routes of acts: what a person does on a page, and what became of it."""

from __future__ import annotations

import asyncio
from typing import Annotated
from urllib.parse import quote

from airflow.configuration import conf
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from slipway.acts.carry_out import Done, OtherRunError, RunOverError, carry_out
from slipway.web.access import SignedIn
from slipway.web.acts.airflow_api import AirflowApi, AirflowRefusedError
from slipway.web.acts.cross_site import CrossSiteError, require_same_site, require_token
from slipway.web.acts.forms import OversizedError, asked_of, read_fields
from slipway.web.acts.outcome import outcome_of
from slipway.web.answers import POLL_HEADER, problem
from slipway.web.landed import landed_versions
from slipway.web.rendering import render
from slipway.web.sources import sources
from slipway_core.acts.requests import request_of
from slipway_core.acts.table import ACTS
from slipway_core.errors import SlipwayError, TransientError, UserError
from slipway_core.identifiers import validate_model_name
from slipway_core.read_model.landed import require_landed

router = APIRouter()
TOKEN_FIELD = "token"  # noqa: S105 - the name of a field
BODY_LIMIT_S = 10.0


def airflow_api(request: Request) -> AirflowApi:
    """Return Airflow's REST API, as who asks."""
    return AirflowApi(request)


Api = Annotated[AirflowApi, Depends(airflow_api)]


@router.post("/acts/{name}")
async def act(request: Request, name: str, user: SignedIn, api: Api) -> Response:
    """Carry out one act, as the person who is signed in."""
    chosen = ACTS.get(name)
    if chosen is None:
        return problem(request, 404, "There is no such action.")
    try:
        require_same_site(request, conf.get("api", "base_url", fallback=""))
        async with asyncio.timeout(BODY_LIMIT_S):
            fields = await read_fields(request)
        nonce = require_token(api.secret, str(user.get_id()), fields.pop(TOKEN_FIELD, ""))
        asked = asked_of(fields)
        wanted = request_of(name, asked)
        if chosen.offered == "landed" and asked.model and asked.version:
            await run_in_threadpool(_require_landed, asked.model, asked.version)
        done = await carry_out(api, chosen, wanted, model=asked.model, nonce=nonce)
    except CrossSiteError as error:
        return problem(request, 403, str(error))
    except OversizedError:
        return problem(request, 413, "The request is larger than any form of these pages.")
    except (TimeoutError, ClientDisconnect):
        return problem(request, 408, "The form arrived too slowly.", "Try again.")
    except AirflowRefusedError as error:
        return problem(request, _status(error), _message(error), _remedy(error))
    except (OtherRunError, RunOverError) as error:
        return problem(request, 404 if isinstance(error, OtherRunError) else 409, f"{error.what}.")
    except UserError as error:
        remedy = f"Expected: {error.expected}." if error.expected else ""
        return problem(request, 422, f"{error.in_short()}.", " ".join(filter(None, (remedy, error.remedy))))
    except TransientError as error:
        return problem(request, 503, f"{error.in_short()}. Nothing was started.", error.remedy or "")
    except SlipwayError as error:
        return problem(request, 422, f"{error.in_short()}.", error.remedy or "")
    return _answer(request, done)


@router.get("/acts/{dag_id}/{run_id}")
async def act_page(request: Request, dag_id: str, run_id: str, api: Api) -> Response:
    """Show what became of an act: the state of its run, and what it says."""
    try:
        outcome = await outcome_of(api, dag_id, run_id)
    except AirflowRefusedError as error:
        return problem(request, _status(error), _message(error))
    if POLL_HEADER in request.headers and "application/json" in request.headers.get("accept", ""):
        return JSONResponse(outcome.as_json())
    return render(request, "acts/outcome.html.j2", outcome=outcome)


def _require_landed(model: str, version: int) -> None:
    """Return where the version has landed whole: a run of one that has not would fail minutes later, unseen.

    :raises SlipwayError: it has not; or the object store does not answer.
    """
    require_landed(landed_versions(sources(), validate_model_name(model)), version)


def _answer(request: Request, done: Done) -> Response:
    root = request.scope.get("root_path", "")
    page = f"{root}/acts/{quote(done.dag_id, safe='')}/{quote(done.run_id, safe='')}"
    if POLL_HEADER in request.headers:
        body = {"message": done.message, "is_new": done.is_new, "dag_id": done.dag_id, "run_id": done.run_id}
        return JSONResponse({**body, "page": page}, 202 if done.is_new else 200)
    return RedirectResponse(page, 303)


def _status(error: AirflowRefusedError) -> int:
    return error.status if error.status in (400, 401, 403, 404, 409, 422) else 502


def _message(error: AirflowRefusedError) -> str:
    if error.status == 403:
        return "You do not have permission to do this in Airflow."
    return f"{error.what.rstrip('.')}."


def _remedy(error: AirflowRefusedError) -> str:
    return "Ask an Airflow administrator for a role with this permission." if error.status == 403 else ""
