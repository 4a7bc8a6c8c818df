"""A real Chromium, driven as a person drives one; what a page may not do is noted while it is open.

Without Chromium these tests are skipped, and in CI they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

from slipway_sandbox.services.airflow import access_token
from tests.support.web.airflow_site import PASSWORD, AirflowSite

CHROMIUM = "/usr/bin/chromium"
WAIT_MS = 60_000
Screen = Literal["wide", "narrow"]
_SIZES: dict[Screen, tuple[int, int]] = {"wide": (1280, 900), "narrow": (390, 800)}


def chromium_path() -> str:
    """Return where Chromium is; skip the test where there is none, and fail it in CI."""
    found = os.environ.get("SLIPWAY_CHROMIUM") or shutil.which("chromium") or CHROMIUM
    if Path(found).exists():
        return found
    if os.environ.get("CI") == "true":
        pytest.fail(f"there is no Chromium at {found}: install Debian's package chromium", pytrace=False)
    pytest.skip(f"there is no Chromium at {found}")


class Visit:
    """One person with one window. `wrong` is what a page did that it may not do."""

    def __init__(self, site: AirflowSite, context: BrowserContext) -> None:
        self.site = site
        self.context = context
        self.wrong: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        self.page.on("request", self._request)

    def go(self, path: str) -> Page:
        """Open a page of the dashboard."""
        answer = self.page.goto(f"{self.site.dashboard}{path}", wait_until="load")
        assert answer is not None
        assert answer.status == 200, f"{path} answered {answer.status}"
        return self.page

    def width_over(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(script))

    def _console(self, message: Any) -> None:
        # What a policy forbids is an error, too.
        if message.type == "error":
            self.wrong.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.site.url, "data:", "blob:")):
            self.wrong.append(f"another host: {request.url}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium while the context lasts."""
    path = chromium_path()
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


Visitor = Callable[..., Visit]


@contextmanager
def visitors(site: AirflowSite, browser: Browser) -> Iterator[Visitor]:
    """Yield what opens a window for a person; in the end no page may have done anything that it may not do."""
    visits: list[Visit] = []

    def visit(
        role: str = "viewer", *, dark: bool = False, screen: Screen = "wide", scripts: bool = True
    ) -> Visit:
        width, height = _SIZES[screen]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        if role != "stranger":
            token = access_token(site.url, role, PASSWORD)
            context.add_cookies([{"name": "_token", "value": token, "url": site.url}])
        visits.append(Visit(site, context))
        return visits[-1]

    yield visit
    wrong = [one for visit_ in visits for one in visit_.wrong]
    for one in visits:
        one.context.close()
    assert wrong == [], wrong
