"""Who is not permitted sees nothing: every route of the application is asked, whoever has added it."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
import pytest
from starlette.routing import Route

from slipway.web.answers import PROGRAMS
from slipway.web.app import make_app
from slipway.web.webhook import WEBHOOK_PATH
from tests.support.web.airflow_site import AirflowSite

# The one route that proves by itself who asks: by MLflow's signature.
OWN_PROOF = WEBHOOK_PATH
STATIC = "/static/{name}"


def _routes() -> list[tuple[str, str]]:
    """Return each method and path template of the application."""
    found = []
    for route in make_app().routes:
        # A mount would hide its routes from this test.
        assert isinstance(route, Route), f"{route} is no plain route: include a router instead"
        found += [(method, route.path) for method in sorted(route.methods or ())]
    return found


GUARDED = [(method, path) for method, path in _routes() if path != OWN_PROOF]


def _filled(path: str) -> str:
    """Return a path with something in the place of each of its parameters."""
    return re.sub(r"\{[^}]+\}", "1", path)


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_stranger_gets_nothing(client_of: Callable[[str], httpx.Client], method: str, path: str) -> None:
    """The API answers 401; a page leads to Airflow's login, with the way back."""
    answer = client_of("stranger").request(method, _filled(path))
    if path.startswith(PROGRAMS) or method != "GET":
        assert answer.status_code == 401
    else:
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/api/v2/auth/login?next=%2Fslipway")


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_token_that_airflow_did_not_make_is_a_strangers(site: AirflowSite, method: str, path: str) -> None:
    """As a header and as a cookie."""
    for made_up in ({"Authorization": "Bearer made.up.token"}, {"Cookie": "_token=made.up.token"}):
        answer = httpx.request(method, f"{site.dashboard}{_filled(path)}", headers=made_up)
        assert answer.status_code in (303, 401)


@pytest.mark.parametrize(("method", "path"), [one for one in GUARDED if one[1] != STATIC])
def test_who_may_not_read_the_releases_is_refused(
    client_of: Callable[[str], httpx.Client], method: str, path: str
) -> None:
    """Signed in, without a role: 403, in plain words, and nothing of what there is."""
    answer = client_of("nobody").request(method, _filled(path))
    assert answer.status_code == 403
    assert "You may not read" in answer.text


def test_a_viewer_sees_the_overview(client_of: Callable[[str], httpx.Client]) -> None:
    """Who may read the DAG of the releases may read its pages."""
    answer = client_of("viewer").get("/")
    assert answer.status_code == 200
    assert "Slipway" in answer.text


@pytest.mark.parametrize("path", ["/", "/static/slipway.css", "/no-such-page", "/api/no-such-thing"])
@pytest.mark.parametrize("role", ["stranger", "nobody", "viewer"])
def test_every_answer_has_the_security_headers(
    client_of: Callable[[str], httpx.Client], role: str, path: str
) -> None:
    """Whatever it says, and whoever asks."""
    headers = client_of(role).get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'self'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "static" in path or headers["cache-control"] == "no-store"


def test_a_static_file_is_not_sent_twice(client_of: Callable[[str], httpx.Client]) -> None:
    """Who has it gets 304; under the address with its digest it may be kept for a year."""
    client = client_of("viewer")
    first = client.get("/static/slipway.css")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    assert client.get("/static/slipway.css", headers={"If-None-Match": tag}).status_code == 304
    named = client.get("/static/slipway.css", params={"v": tag.strip('"')})
    assert "immutable" in named.headers["cache-control"]
    for strange in ("..%2fapp.py", "%2e%2e/app.py", "app.py", ".."):
        assert client.get(f"/static/{strange}").status_code in (200, 404)
        assert "def make_app" not in client.get(f"/static/{strange}").text


def test_what_there_is_not_is_said_in_plain_words(client_of: Callable[[str], httpx.Client]) -> None:
    """A page for a person, JSON for a program."""
    page = client_of("viewer").get("/no-such-page")
    assert (page.status_code, "There is no such page." in page.text) == (404, True)
    told = client_of("viewer").get("/api/no-such-thing")
    assert (told.status_code, told.json()["detail"]) == (404, "There is no such page.")
