"""The route of MLflow's webhooks: it proves who asks by a signature, and so it needs no session of Airflow's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from slipway_core.errors import WebhookRefusedError
from slipway_core.operations.registry_webhook import BODY_LIMIT_BYTES, read_delivery

log = logging.getLogger(__name__)

WEBHOOK_PATH = "/webhooks/mlflow"
BODY_LIMIT_S = 10.0
"""How long a request may take to send its body."""


class _OversizedError(Exception):
    """A body is too large."""


def make_webhook_router(secret: Callable[[], str], start: Callable[[str, str], list[str]]) -> APIRouter:
    """Return the route.

    :param secret: what MLflow signs with; empty: no webhook is taken.
    :param start: starts the syncs of a registered model, for a delivery; returns the runs' ids.
    """
    router = APIRouter()

    def take(headers: dict[str, str], body: bytes) -> list[str]:
        delivery = read_delivery(headers, body, secret(), time.time())
        return (
            []
            if delivery.registered_model is None
            else start(delivery.registered_model, delivery.delivery_id)
        )

    @router.post(WEBHOOK_PATH)
    async def mlflow_webhook(request: Request) -> JSONResponse:
        """Start the syncs of the registered model that a signed webhook of MLflow names."""
        try:
            async with asyncio.timeout(BODY_LIMIT_S):
                body = await _read(request)
        except _OversizedError:
            return JSONResponse({"detail": "too large"}, 413)
        except (TimeoutError, ClientDisconnect):
            return JSONResponse({"detail": "too slow"}, 408)
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            started = await run_in_threadpool(take, headers, body)
        except WebhookRefusedError as error:
            # Who asks learns nothing; who reads the log does.
            log.info("a webhook was refused: %s", error)
            return JSONResponse({"detail": "not signed correctly"}, 401)
        except Exception:  # MLflow sends it again; the schedule repairs what is lost
            log.exception("a webhook could not be accepted")
            return JSONResponse({"detail": "not now"}, 503)
        return JSONResponse({"started": started}, 202)

    return router


async def _read(request: Request) -> bytes:
    """Return the body; it is not read where it says, or turns out, to be too large."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 12 or int(length) > BODY_LIMIT_BYTES):
        raise _OversizedError
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_LIMIT_BYTES:
            raise _OversizedError
    return bytes(body)
