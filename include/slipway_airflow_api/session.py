"""One server, signed in to once; documents read from it."""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from slipway_airflow_api.access import Access
from slipway_airflow_api.errors import AddressError, error_for
from slipway_core.errors import ServerUnavailableError

_ANSWER_LIMIT_BYTES = 32 * 2**20
_ERROR_LIMIT_BYTES = 64 * 2**10


class Session:
    """Asks the server as one person; signs in at the first request, and once more where the token is refused."""

    def __init__(self, access: Access) -> None:
        """Take the access as it is; nothing is asked yet.

        :raises AddressError: its address is no server's.
        """
        parts = urlsplit(access.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AddressError(
                f"{access.base_url!r} is not the address of a server",
                expected="http://HOST:PORT or https://HOST",
                found="another text",
                remedy="Correct the address.",
            )
        self.access = access
        self._token = access.token

    @property
    def token(self) -> str:
        """The access token; the first look signs in.

        :raises SlipwayError: the server refuses it, or does not answer.
        """
        if not self._token:
            self._token = self._sign_in()
        return self._token

    def renew(self) -> bool:
        """Forget a token that the server refuses; return whether there is a way to another one."""
        if self.access.token:
            return False
        self._token = ""
        return True

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the document at `path`, below the server's address.

        :raises SlipwayError: the server refuses it, or does not answer.
        """
        target = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        for attempt in (1, 2):
            try:
                with self.errors(path):
                    return self._send(Request(target, headers={"Authorization": f"Bearer {self.token}"}))
            except _UnauthorizedError as error:
                if attempt == 2 or not self.renew():
                    raise error_for(path, error.status, error.content) from None
        raise AssertionError("unreachable")

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Raise the project's errors in the place of the library's."""
        try:
            yield
        except HTTPError as error:
            with error:
                content = error.read(_ERROR_LIMIT_BYTES).decode(errors="replace")
            if error.code == http.client.UNAUTHORIZED:
                raise _UnauthorizedError(error.code, content) from None
            raise error_for(what, error.code, content) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise ServerUnavailableError(
                f"Airflow's API at {self.access.base_url} did not answer {what}",
                found=f"{type(reason).__name__}: {reason}",
                remedy=self.access.if_silent,
            ) from error

    @property
    def _base(self) -> str:
        return self.access.base_url.rstrip("/")

    def _sign_in(self) -> str:
        access = self.access
        body = json.dumps({"username": access.user, "password": access.password}).encode()
        request = Request(f"{self._base}/auth/token", body, {"Content-Type": "application/json"})
        try:
            with self.errors("the sign-in"):
                token = json.loads(self._send(request))["access_token"]
                if not isinstance(token, str):
                    raise ValueError("the answer has no token")
                return token
        except _UnauthorizedError as error:
            raise error_for("the sign-in", error.status, error.content) from None
        except (KeyError, TypeError) as error:
            raise ServerUnavailableError(
                f"what answers at {self.access.base_url} is not Airflow's API",
                expected="an access token",
                found="another document",
                remedy="Check the address: it is the one that Airflow's pages have, without a path behind it.",
            ) from error

    def _send(self, request: Request) -> bytes:
        with self._opener().open(request, timeout=self.access.timeout_s) as answer:
            body: bytes = answer.read(_ANSWER_LIMIT_BYTES + 1)
        if len(body) > _ANSWER_LIMIT_BYTES:
            raise ValueError(f"the answer has more than {_ANSWER_LIMIT_BYTES} bytes")
        return body

    def _opener(self) -> OpenerDirector:
        parts = urlsplit(self.access.base_url)
        handlers: list[Any] = [_NoRedirects()]
        if is_loopback(parts.hostname or ""):
            handlers.append(ProxyHandler({}))  # a proxy cannot know this machine's own servers
        if parts.scheme == "https":
            cafile = str(self.access.ca_file) if self.access.ca_file else None
            handlers.append(HTTPSHandler(context=ssl.create_default_context(cafile=cafile)))
        return build_opener(*handlers)


class _UnauthorizedError(Exception):
    """401: the token may have grown old."""

    def __init__(self, status: int, content: str) -> None:
        super().__init__(status)
        self.status, self.content = status, content


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would take the token along to wherever it points."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """Follow none: the answer is an error of its status."""
        return None


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its name alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
