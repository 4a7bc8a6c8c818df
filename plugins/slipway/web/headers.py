"""Headers of every answer, and what is answered where the program itself fails.

A page loads nothing but what this application serves, and nothing inline. Airflow may show a page in a frame, no other
site may. What a person reads is not kept by any cache, unless a route says otherwise.
"""

from __future__ import annotations

import logging

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'self'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class SecurityHeaders:
    """Put the headers on every answer that does not set them itself.

    :param app: the application within.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:
            # Also where the page that reports an error cannot be made. Who asks learns nothing of the inside.
            log.exception("a request of Slipway's dashboard failed")
            if has_begun:
                raise
            answer = PlainTextResponse("Slipway could not answer. The API server's log says why.", 500)
            await answer(scope, receive, send_with_headers)
