"""HTTP endpoints behind an Airflow connection: where they are, who asks, and that no answer takes for ever.

A connection of type ``http``. Its extra may hold, beside what a source reads for itself:

- ``token``: a bearer token; so is ``password`` where ``login`` is empty. With both, they are basic authentication;
- ``sigv4_region``: requests are signed for Amazon Managed Prometheus in this region, by the credentials of
  ``aws_conn_id`` (default ``aws_default``);
- ``headers``: further headers, such as ``{"X-Scope-OrgID": "models"}``;
- ``verify`` (false: any certificate is taken), ``ca``, ``client_cert``, ``client_key``: paths of PEM files;
- ``proxy``: the URL of a proxy; the environment's are not used.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlencode

import aiohttp
from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from airflow.sdk import BaseHook
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError
from yarl import URL

from airflow_provider_triton.connection_fields import decoded, extra_of
from slipway.hooks.connection_fields import base_url
from slipway_core.errors import MetricsUnavailableError, TransientError, UserError
from slipway_core.http_answers.retry_after import HEADER, STATUSES, retry_after_s

T = TypeVar("T")

_CONNECT_LIMIT_S = 5.0
_BYTES_LIMIT = 32 * 1024 * 1024
PATIENCE_S, _LEAST_PAUSE_S = 5.0, 0.1
"""How long one request is put off at most, all together, because the server asks for it by `Retry-After`."""
_CONNECTIONS_LIMIT = 4
_SERVICE = "aps"

Signer = Callable[[str, str, bytes, Mapping[str, str]], dict[str, str]]


@dataclass(frozen=True)
class Use:
    """What a connection is used for, in the words of its errors.

    :param name: behind "cannot be used for".
    :param server: what is asked, with its article.
    :param unavailable: the error where it does not answer.
    :param slow: what to do where the time was up.
    :param long: what to do where an answer is too long.
    """

    name: str
    server: str
    unavailable: type[TransientError]
    slow: str
    long: str


METRICS = Use(
    name="metrics",
    server="the metrics source",
    unavailable=MetricsUnavailableError,
    slow="check its load, or raise `rollout.metrics.timeout_s`",
    long="narrow the query, or shorten `rollout.metrics.lookback_s`",
)


def within(limit_s: float, reading: Coroutine[Any, Any, T], source: str, use: Use = METRICS) -> T:
    """Runs a reading to its end, or to the limit: a source that drips is a source that does not answer.

    Call it where no event loop runs: in a worker, or in a thread of a triggerer.

    :raises TransientError: the time was up; the class is the use's.
    """

    async def limited() -> T:
        async with asyncio.timeout(limit_s):
            return await reading

    try:
        return asyncio.run(limited())
    except TimeoutError:
        raise use.unavailable(
            f"{source} did not answer in time",
            expected=f"a complete answer within {limit_s:g} s",
            found="no answer, or only part of one",
            remedy=use.slow,
        ) from None


class HttpAccess:
    """The addresses of a connection, and requests to them that carry its credentials.

    :param conn_id: the connection.
    :param use: what it is used for.
    :raises UserError: the connection has no host, says two things at once, or names a file that cannot be used.
    """

    def __init__(self, conn_id: str, use: Use = METRICS) -> None:
        self.conn_id = conn_id
        self.use = use
        connection = BaseHook.get_connection(conn_id)
        try:
            self.extra: dict[str, Any] = extra_of(connection)
        except ValueError as error:
            raise self.unusable(str(error), "a JSON object as its extra") from None
        self.hosts = [
            self._url(host.strip(), connection.schema, connection.port)
            for host in (connection.host or "").split(",")
            if host.strip()
        ]
        headers = decoded(self.extra.get("headers") or {})
        if not isinstance(headers, dict):
            raise self.unusable("its `headers` are not a mapping", "a mapping of names to values")
        self._headers = {str(name): str(value) for name, value in headers.items()}
        self._headers.update(self._authorization(connection.login or "", connection.password or ""))
        self._sign = self._signer()
        self._tls = self._tls_context()

    def url_of(self, address: str) -> str:
        """The URL of an address that is written as HOST:PORT or as a URL."""
        return self._url(address, None, None)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """A session for the requests of one reading."""
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS_LIMIT, ssl=self._tls)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_LIMIT_S)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            yield session

    async def ask(
        self, session: aiohttp.ClientSession, url: str, form: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the answer to a GET, or to a POST of a form.

        :raises TransientError: as `request` says.
        """
        if form is None:
            return await self.request(session, "GET", url)
        return await self.request(
            session, "POST", url, urlencode(form).encode(), "application/x-www-form-urlencoded"
        )

    async def request(
        self, session: aiohttp.ClientSession, method: str, url: str, body: bytes = b"", content_type: str = ""
    ) -> tuple[int, bytes]:
        """Status and body of the answer to a request.

        :raises TransientError: no answer, an answer that sends elsewhere, refuses the credentials or is too long; the
            class is the use's. Other statuses are the caller's to judge.
        """
        async with self._answer(session, method, url, body, content_type) as answer:
            return answer.status, await self._content(answer, url)

    async def download(
        self, session: aiohttp.ClientSession, url: str, target: BinaryIO, most_bytes: int
    ) -> tuple[int, int]:
        """Write the body of the answer to a GET into a file; return the status, and how many bytes the body has.

        Nothing is written where the status is not 200, and no more than `most_bytes` + one piece: a body that is longer
        ends there, and is reported as longer.

        :raises TransientError: as `request` says, and where the body ends before its time.
        """
        async with self._answer(session, "GET", url) as answer:
            size = 0
            if answer.status == 200:
                async for part in answer.content.iter_any():
                    target.write(part)
                    size += len(part)
                    if size > most_bytes:
                        break
            return answer.status, size

    @asynccontextmanager
    async def _answer(
        self, session: aiohttp.ClientSession, method: str, url: str, body: bytes = b"", content_type: str = ""
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request; a server that asks to be asked again in a moment is asked again then."""
        until = time.monotonic() + PATIENCE_S
        while True:
            async with self._first_answer(session, method, url, body, content_type) as answer:
                pause_s = _pause_s(answer)
                if pause_s is None or time.monotonic() + pause_s > until:
                    yield answer
                    return
            await asyncio.sleep(pause_s)

    @asynccontextmanager
    async def _first_answer(
        self, session: aiohttp.ClientSession, method: str, url: str, body: bytes, content_type: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = dict(self._headers)
        if content_type:
            headers["Content-Type"] = content_type
        try:
            if self._sign is not None:
                headers = self._sign(method, url, body, headers)
            async with session.request(
                method,
                URL(url, encoded=True),
                data=body or None,
                headers=headers,
                # A login page is not an answer.
                allow_redirects=False,
                proxy=self.extra.get("proxy"),
            ) as answer:
                if answer.status in (401, 403) or 300 <= answer.status < 400:
                    raise self._no_answer(url, f"HTTP {answer.status}")
                yield answer
        except (aiohttp.ClientError, OSError, BotoCoreError, ClientError) as error:
            # Of the others' texts nobody knows that they repeat no header.
            found = str(error) if isinstance(error, aiohttp.ClientConnectorError) else type(error).__name__
            raise self._no_answer(url, found) from None

    async def _content(self, answer: aiohttp.ClientResponse, url: str) -> bytes:
        parts, size = [], 0
        async for part in answer.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > _BYTES_LIMIT:
                raise self.use.unavailable(
                    f"the answer of {origin(url)} is too large",
                    expected=f"at most {_BYTES_LIMIT} bytes",
                    remedy=self.use.long,
                )
        return b"".join(parts)

    def _no_answer(self, url: str, found: str) -> TransientError:
        return self.use.unavailable(
            f"{self.use.server} {origin(url)} did not answer",
            expected="HTTP 200",
            found=found,
            remedy=f"check that it runs, and check the address and credentials in the connection {self.conn_id!r}",
        )

    def _url(self, host: str, schema: str | None, port: int | None) -> str:
        try:
            return base_url(host, schema, port)
        except ValueError:
            # Not shown: it may hold a password.
            raise self.unusable(
                "its address is invalid", "http(s)://HOST:PORT/PATH with one port and without a password"
            ) from None

    def _authorization(self, login: str, password: str) -> dict[str, str]:
        token = str(self.extra.get("token") or "")
        ways = [bool(token), bool(login or password), bool(self.extra.get("sigv4_region"))]
        if sum(ways) > 1:
            raise self.unusable(
                "it has more than one kind of credentials",
                "only one of: extra `token`, login and password, password alone, extra `sigv4_region`",
            )
        if login:
            return {"Authorization": "Basic " + base64.b64encode(f"{login}:{password}".encode()).decode()}
        return {"Authorization": f"Bearer {token or password}"} if token or password else {}

    def _signer(self) -> Signer | None:
        region = self.extra.get("sigv4_region")
        if not region:
            return None
        aws_conn_id = self.extra.get("aws_conn_id", "aws_default")
        credentials = AwsBaseHook(aws_conn_id, region_name=region).get_session(region).get_credentials()
        if credentials is None:
            raise self.unusable("it asks for AWS signatures", f"credentials from {aws_conn_id!r}")

        def sign(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> dict[str, str]:
            request = AWSRequest(method=method, url=url, data=body, headers=dict(headers))
            # Frozen: the three parts of credentials that are renewed meanwhile belong together.
            SigV4Auth(credentials.get_frozen_credentials(), _SERVICE, region).add_auth(request)
            return dict(request.headers.items())

        return sign

    def _tls_context(self) -> ssl.SSLContext:
        verify, ca = self.extra.get("verify", True), self.extra.get("ca")
        if isinstance(verify, str) and verify.lower() not in ("true", "false"):
            # As the HTTP provider has it: the path of a CA.
            verify, ca = True, ca or verify
        try:
            context = ssl.create_default_context(cafile=ca)
            if self.extra.get("client_cert"):
                context.load_cert_chain(self.extra["client_cert"], self.extra.get("client_key"))
        except (OSError, ssl.SSLError, TypeError) as error:
            raise self.unusable(
                "`ca`, `client_cert` or `client_key` cannot be used", "paths of PEM files", str(error)
            ) from None
        if str(verify).lower() == "false":
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def unusable(self, what: str, expected: str, found: str | None = None) -> UserError:
        """The error that says what is wrong with the connection."""
        return UserError(
            f"the connection {self.conn_id!r} cannot be used for {self.use.name}: {what}",
            expected=expected,
            found=found,
            remedy="correct the connection",
        )


def _pause_s(answer: aiohttp.ClientResponse) -> float | None:
    """Return after how long a server that has no time wants to be asked again; None: it does not say so."""
    if answer.status not in STATUSES:
        return None
    wanted_s = retry_after_s(answer.headers.get(HEADER), datetime.now(UTC))
    return None if wanted_s is None else max(wanted_s, _LEAST_PAUSE_S)


def origin(url: str) -> str:
    """The URL without its query."""
    return url.partition("?")[0]
