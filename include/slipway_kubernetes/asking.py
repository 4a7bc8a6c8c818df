"""How the API is asked again: by a token that has rotated, and when it wants to be.

Both are safe for any request: an API server that answers 401, or 429 and 503 with a time, has not begun it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kubernetes.client import ApiClient, ApiException

from slipway_core.http_answers.retry_after import HEADER, STATUSES, retry_after_s

PATIENCE_S = 5.0
"""How long one request is put off at most, all together, because the API asks for it."""
_LEAST_PAUSE_S = 0.1
_TOKEN_HEADER, _TOKEN = "authorization", "BearerToken"


def without_retries(api: ApiClient) -> ApiClient:
    """Return the client so that it asks once.

    urllib3 would ask an API that hangs four times before it gives up; whoever asks tries again himself, after he has
    observed again.
    """
    api.rest_client.pool_manager.connection_pool_kw["retries"] = False
    return api


def asking_again(
    connect: Callable[[], ApiClient],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> ApiClient:
    """Return a client that reads its credentials again where the API refuses them, and waits when the API asks for it.

    The client library reads the file of a kubeconfig's `tokenFile`, and certificates, once. A file that rotates every
    few minutes would be refused for good; so an answer 401 connects again, and asks once more if that gives another
    token or certificate. An answer 429 or 503 with `Retry-After` is asked again then, within `PATIENCE_S`.

    :param connect: makes the client, from the kubeconfig as it is now. It may raise what the library raises.
    """
    api = without_retries(connect())
    lock = threading.Lock()
    send = api.request

    def renew(refused: str | None) -> str | None:
        """Connect again; return the token then, or raise what connecting raises."""
        with lock:
            # Another thread may have done so since this one has asked.
            current = _authorization(api)
            if current == refused:
                fresh = without_retries(connect())
                api.configuration, api.rest_client = fresh.configuration, fresh.rest_client
                current = _authorization(api)
            return current

    def once(method: str, url: str, options: dict[str, Any]) -> Any:
        try:
            return send(method, url, **options)
        except ApiException as error:
            headers = options.get("headers") or {}
            refused = headers.get(_TOKEN_HEADER)
            if error.status != 401:
                raise
            try:
                token = renew(refused)
            except Exception:  # a file that is being written fails with the parser's own errors
                raise error from None
            if token is None or token == refused:
                raise
            return send(method, url, **{**options, "headers": {**headers, _TOKEN_HEADER: token}})

    def request(method: str, url: str, query_params: Any = None, headers: Any = None, **options: Any) -> Any:
        given = {"query_params": query_params, "headers": headers, **options}
        until = clock() + PATIENCE_S
        while True:
            try:
                return once(method, url, given)
            except ApiException as error:
                pause_s = _pause_s(error)
                if pause_s is None or clock() + pause_s > until:
                    raise
                sleep(pause_s)

    api.request = request
    return api


def _authorization(api: ApiClient) -> str | None:
    """Return the header that says who asks, as the client would send it now; None: something else says it."""
    headers: dict[str, str] = {}
    api.update_params_for_auth(headers, [], [_TOKEN])
    return headers.get(_TOKEN_HEADER)


def _pause_s(error: ApiException) -> float | None:
    """Return after how long the API wants to be asked again; None: it does not say so."""
    headers: Mapping[str, str] = error.headers or {}
    if error.status not in STATUSES:
        return None
    wanted_s = retry_after_s(headers.get(HEADER), datetime.now(UTC))
    return None if wanted_s is None else max(wanted_s, _LEAST_PAUSE_S)
