"""Nobody does something by a page of another site: where a request comes from, and a token that only our forms have.

A browser sends Airflow's cookie with what other sites' pages ask for, where its SameSite rule lets it. So each act must
come from a page of this very host, by the headers that scripts cannot set, and carry a token that was signed for this
person when the form was made. The token also holds a nonce, which names the run: a form that is sent twice starts one.
"""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

from fastapi import Request
from itsdangerous import BadData, URLSafeTimedSerializer

_SALT = "slipway.acts"
TOKEN_MAX_AGE_S = 12 * 3600
_TOKEN_LONGEST = 1000
_NONCE_BYTES = 5


class CrossSiteError(Exception):
    """A request that does not prove that it comes from one of our forms.

    :param what: what is missing, as a sentence.
    """


def make_token(secret: str, person_id: str) -> str:
    """Return a token for one form of one person."""
    return _serializer(secret).dumps([person_id, secrets.token_hex(_NONCE_BYTES)])


def require_token(secret: str, person_id: str, token: str) -> str:
    """Return the nonce of a token that was made for this person.

    :raises CrossSiteError: it was not, or too long ago.
    """
    try:
        if len(token) > _TOKEN_LONGEST:
            raise BadData("too long")
        signed_for, nonce = _serializer(secret).loads(token, max_age=TOKEN_MAX_AGE_S)
    except (BadData, ValueError, TypeError) as error:
        raise CrossSiteError("This form is too old, or was not made for you. Load the page again.") from error
    if signed_for != person_id or not isinstance(nonce, str):
        raise CrossSiteError("This form was made for another person. Load the page again.")
    return nonce


def require_same_site(request: Request, base_url: str) -> None:
    """Let pass what a page of this host asks for.

    :param base_url: Airflow's own address as its configuration has it; "": none. A proxy may give us another host.
    :raises CrossSiteError: another site's page asks, or the request does not say whose does.
    """
    fetch_site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if fetch_site is None and origin is None:
        raise CrossSiteError("The request does not say which page it comes from.")
    if fetch_site is not None and fetch_site != "same-origin":
        raise CrossSiteError("The request comes from another site's page.")
    # A proxy may end TLS before us: the scheme is not compared.
    own = {request.headers.get("host", "").lower(), urlsplit(base_url).netloc.lower()} - {""}
    if origin is not None and urlsplit(origin).netloc.lower() not in own:
        raise CrossSiteError("The request comes from another site's page.")


def _serializer(secret: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(secret, salt=_SALT)
