"""The pages as a person sees them: by mouse, by keyboard, on a dark screen, on a telephone, without scripts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.writer import ViewWriter
from slipway_core.operations.freezes import freeze
from tests.support.store.connections import own_connection
from tests.support.web.airflow_site import PASSWORD, AirflowSite
from tests.support.web.browser import Screen, Visitor

PAGES = (
    "/",
    "/models/digits",
    "/models/digits/diff/2/4",
    "/calendar",
    "/audit",
    "/evidence/digits/2/",
    "/doctor",
)


@pytest.fixture(autouse=True)
def known(visit: Visitor) -> None:
    """Wait until the read model has made its documents, which it does while the first page is shown."""
    page = visit().go("/")
    expect(page.get_by_role("row", name="text-embed")).to_contain_text("inputs")


def test_a_stranger_signs_in_and_is_back_at_the_page(visit: Visitor) -> None:
    """Airflow's own login, as everywhere in Airflow."""
    page = visit("stranger").page
    page.goto(f"{visit().site.dashboard}/models/digits?before=4")
    page.get_by_label("Username").fill("viewer")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="digits", level=1)).to_be_visible()
    assert page.url.endswith("/slipway/models/digits?before=4")


def test_a_search_shows_what_it_finds_while_somebody_types(visit: Visitor) -> None:
    """The address has the search, so that it can be sent to somebody."""
    page = visit().go("/")
    page.get_by_role("searchbox").press_sequentially("rank", delay=20)
    expect(page.get_by_role("row", name="digits")).to_have_count(0)
    expect(page.get_by_role("row", name="search-ranker")).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_be_focused()
    assert "q=rank" in page.url
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("rank")
    expect(page.get_by_role("row", name="digits")).to_have_count(0)


def test_what_needs_somebody_is_one_click_away(visit: Visitor) -> None:
    """An approval is in the inbox; what is held or paused is on the page of its release."""
    page = visit().go("/")
    page.get_by_role("row", name="fraud-score").get_by_role("link", name="Needs you").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Approvals")
    page.go_back()
    page.get_by_role("row", name="search-ranker").get_by_role("link", name="Needs you").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("version 8")


def test_the_overview_is_whole_without_scripts(visit: Visitor) -> None:
    """Search and choices are a form and links."""
    page = visit(scripts=False).go("/")
    page.get_by_role("searchbox").fill("rank")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("row", name="search-ranker")).to_have_count(1)
    expect(page.get_by_role("row", name="digits")).to_have_count(0)
    page.goto(f"{visit().site.dashboard}/")
    page.get_by_role("link", name="Needs you").first.click()
    expect(page.get_by_role("row", name="fraud-score")).to_have_count(1)
    expect(page.get_by_role("row", name="digits")).to_have_count(0)


def test_the_overview_brings_itself_up_to_date(visit: Visitor, filled_site: AirflowSite) -> None:
    """A freeze that somebody sets appears by itself, and what had the keyboard keeps it."""
    page = visit().go("/")
    row = page.get_by_role("row", name="churn")
    expect(row).not_to_contain_text("frozen")
    row.get_by_role("link", name="churn").focus()
    now = datetime.now(UTC)
    with own_connection(filled_site.store_endpoint) as conn_id:
        key, content = freeze(
            "churn", who="mira", now=now, until=now + timedelta(hours=1), reason="tests", run_id="browser"
        )
        store = ModelStoreHook(filled_site.bucket, conn_id)
        store.write_once(key, content)
        ViewWriter(store).bring_up_to_date("churn")
    expect(row).to_contain_text("frozen")
    expect(row.get_by_role("link", name="churn")).to_be_focused()


def test_from_the_overview_to_what_differs_by_keyboard(visit: Visitor) -> None:
    """Everything is reached by Tab, and what has the keyboard is seen."""
    page = visit().go("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    _tab_to(page, "a", "digits")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="digits", level=1)).to_be_visible()
    page.get_by_label("Compare version 2").focus()
    page.keyboard.press("Space")
    page.get_by_label("with version 4").focus()
    page.keyboard.press("Space")
    _tab_to(page, "button", "Compare the selected versions")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("v2 and v4")
    expect(page.get_by_role("row", name="max_batch_size: 128")).to_be_visible()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("screen", "dark"), [("wide", True), ("narrow", False)])
def test_a_page_fits_its_screen(visit: Visitor, path: str, screen: Screen, dark: bool) -> None:
    """Tables scroll for themselves; dark is dark, and every text stands out from what is behind it."""
    one = visit(dark=dark, screen=screen)
    page = one.go(path)
    assert one.width_over() == 0
    behind, ink = page.evaluate(_COLOURS)
    assert (_light_of(behind) < 0.05) == dark
    assert _contrast(behind, ink) >= 7


def test_a_telephone_shows_each_model_whole(visit: Visitor) -> None:
    """Nobody scrolls a table sideways to see what is in flight: each cell is a line that names its column."""
    page = visit(screen="narrow").go("/")
    table = page.get_by_role("group", name="Table of models")
    assert table.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    for state in table.locator(".state").all():
        box = state.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
    labels = table.locator("td[data-column]").evaluate_all(
        "cells => cells.map(one => getComputedStyle(one, '::before').content)"
    )
    assert {'"Live"', '"In flight"', '"Last release"', '"Attention"'} == set(labels)


@pytest.mark.parametrize("path", ["/audit", "/calendar", "/doctor", "/models/digits"])
def test_a_telephone_shows_each_table_whole(visit: Visitor, path: str) -> None:
    """No column lies beside the screen."""
    page = visit(screen="narrow").go(path)
    beside = page.locator(".wide").evaluate_all("all => all.map(one => one.scrollWidth - one.clientWidth)")
    assert set(beside) == {0}


@pytest.mark.parametrize("dark", [False, True])
def test_the_edges_of_fields_can_be_seen(visit: Visitor, dark: bool) -> None:
    """An edge has a contrast of 3:1 with what it encloses (WCAG 2.2, criterion 1.4.11), in both colour schemes."""
    page = visit(dark=dark).go("/audit")
    for field in page.locator("main").locator("input, select, .button").all():
        edge, inside = field.evaluate(
            "one => [getComputedStyle(one).borderTopColor, getComputedStyle(one).backgroundColor]"
        )
        assert _contrast(edge, inside) >= 3


def test_states_have_words(visit: Visitor) -> None:
    """No state is told by its colour alone."""
    page = visit().go("/models/digits")
    for state in page.locator(".state").all():
        assert state.inner_text().strip()
    for gate in page.locator(".gate").all():
        assert ":" in (gate.text_content() or "")


def test_a_page_of_evidence_runs_nothing(visit: Visitor) -> None:
    """It is shown with its pictures, in a sandbox."""
    page = visit().go("/evidence/digits/2/")
    page.get_by_role("link", name="canary.html").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("rolled back")
    assert page.locator("svg").count() > 3
    assert page.evaluate("window.origin") == "null"


def test_airflow_shows_the_pages_in_a_frame(visit: Visitor) -> None:
    """As the tab of a run does; the way back to Airflow is then Airflow's own."""
    one = visit()
    # Any page of Airflow's own origin will do; the dashboard's policy lets no frame into its pages.
    one.page.goto(f"{one.site.url}/api/v2/version")
    one.page.evaluate(
        """path => {
          const frame = document.createElement("iframe");
          frame.sandbox = "allow-scripts allow-same-origin allow-forms";
          frame.src = path;
          document.body.replaceChildren(frame);
        }""",
        "/slipway/runs/model_release/digits-4",
    )
    frame = one.page.frame_locator("iframe")
    expect(frame.get_by_role("heading", level=1)).to_contain_text("digits")
    expect(frame.locator(".back-to-airflow")).to_be_hidden()


def test_the_exports_are_files(visit: Visitor) -> None:
    """Of what the page shows."""
    page = visit().go("/audit")
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV").click()
    assert started.value.suggested_filename == "slipway-audit.csv"


_COLOURS = """() => {
  const style = getComputedStyle(document.body);
  return [style.backgroundColor, style.color];
}"""


def _tab_to(page: Page, tag: str, text: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate("[document.activeElement.localName, document.activeElement.textContent.trim()]")
        if found == [tag, text]:
            return
    raise AssertionError(f"{text!r} is not reached by Tab")


def _light_of(colour: str) -> float:
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_light_of(one), _light_of(other)))
    return (lighter + 0.05) / (darker + 0.05)
