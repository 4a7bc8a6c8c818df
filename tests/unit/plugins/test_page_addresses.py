"""Where the plugin's pages are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from slipway.page_addresses import (
    approvals_page,
    calendar_page,
    evidence_page,
    model_page,
    overview_page,
    release_page,
    report_page,
)


@pytest.fixture(autouse=True)
def base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's UI lies below a path, as behind a shared ingress."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/team/")


def test_pages_lie_below_airflows_own_address() -> None:
    """The address is that of Airflow's configuration."""
    here = "https://airflow.example.com/team/slipway"
    assert overview_page() == f"{here}/"
    assert approvals_page() == f"{here}/approvals"
    assert calendar_page() == f"{here}/calendar"
    assert model_page("digits") == f"{here}/models/digits"
    assert release_page("digits", 2) == f"{here}/models/digits/versions/2"
    assert evidence_page("digits", 2) == f"{here}/evidence/digits/2/"
    assert evidence_page("digits", "2", "digits-2/validation.html") == (
        f"{here}/evidence/digits/2/digits-2/validation.html"
    )


@pytest.mark.parametrize("base", ["", "javascript:alert(1)", "https://a b", "ftp://here"])
def test_without_an_address_a_page_is_a_path(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """The browser completes it; what is no address of a web page is left out."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    assert release_page("digits", 2) == "/slipway/models/digits/versions/2"


@pytest.mark.parametrize(
    ("model", "version", "name"),
    [
        ("javascript:alert(1)", 1, ""),
        ("../x", 1, ""),
        (None, 1, ""),
        ("digits", "1/../../x", ""),
        ("digits", None, ""),
        ("digits", 1, "../../secret"),
        ("digits", 1, "run/.hidden"),
        ("digits", 1, "run//validation.html"),
        ("digits", 1, "//evil.example.com"),
        ("digits", 1, "run/page.html?next=x"),
        ("digits", 1, "a" * 501),
        ("digits", 1, ["run"]),
    ],
)
def test_hostile_names_make_no_link(model: object, version: object, name: object) -> None:
    """What cannot be the name of a page is not turned into an address."""
    assert evidence_page(model, version, name) == ""


@pytest.mark.parametrize(
    ("run", "name", "path"),
    [
        (
            "scheduled__2026-01-02T00:00:00+00:00",
            "page.html",
            "/scheduled__2026-01-02T00~3a00~3a00~2b00~3a00/page.html",
        ),
        ("run-1", "models/digits.html", "/run-1/models/digits.html"),
        ("..", "page.html", "/~2e~2e/page.html"),
        ("", "page.html", ""),
        ("run-1", "../page.html", ""),
        ("run-1", "", ""),
    ],
)
def test_what_a_later_check_left_has_a_page(run: str, name: str, path: str) -> None:
    """By the run's folder, as it is written; a hostile name makes no link."""
    found = report_page("revalidation", run, name)
    assert found.endswith(f"/slipway/reports/revalidation{path}") if path else found == ""


def test_the_module_is_cheap_to_import() -> None:
    """DAG files import it: neither Airflow nor pydantic comes with it."""
    code = (
        "import sys, slipway.page_addresses; print([m for m in ('airflow', 'pydantic') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stdout.strip() == "[]"
