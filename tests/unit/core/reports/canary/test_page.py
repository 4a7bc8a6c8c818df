"""The page of a canary: self-contained, well-formed, safe, and the same for the same data."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.reports.canary.document import CanaryEvidence, Recomputed
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.page import render_canary_html
from slipway_sandbox.lab.simulation.recorded_canary import Story, Traffic
from tests.support.examples import examples
from tests.support.reports.canary_pages import (
    STORIES,
    begun_anew,
    document_of,
    failing,
    golden_replays,
    good,
    hundreds_of_windows,
    no_traffic,
    no_window,
    one_window,
    one_window_without_data,
    page_of,
    refused,
    without_data,
)
from tests.support.reports.html import parse_page


def words_of(page: str) -> str:
    return " ".join(" ".join(parse_page(page).text).split())


def pictures_of(page: str) -> list[ElementTree.Element]:
    found = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    return [ElementTree.fromstring(picture) for picture in found]  # noqa: S314 - our own page


# --- what the page says ---


def test_the_page_tells_what_matters() -> None:
    """Outcome, reason, counts, steps reached or not, decisions and how to compute it again are on the page."""
    words = words_of(page_of(failing))
    last = document_of(failing).runs[0].windows[-1]
    for expected in (
        "✗ rolled back",
        "Users are back on the stable version.",
        last.reason,
        "The step at 25 % failed after",
        "A rollback was started for this reason.",
        "not reached",
        "All questions together",
        "Errors above the ceiling",
        "How to read this",
        "all are the same",
        "python -m slipway_core.canary canary.jsonl --explain",
    ):
        assert expected in words


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (good, ("✓ promoted", "is the stable version now", "in at most 1 % of canaries")),
        (
            without_data,
            ("✗ rolled back", "could not be read", "rolled back", "of them without data", "+2 without data"),
        ),
        (begun_anew, ("✓ promoted", "Restarted", "canary-run-1.jsonl")),
        (one_window, ("under way", "1", "not ended")),
        (
            golden_replays,
            ("✓ promoted", "Golden requests replayed to it", "of replayed golden requests", "replayed: 2 of"),
        ),
        (no_window, ("under way", "No window was judged.", "no request")),
        (refused, ("✗ refused", "before this version had any users. It is too inaccurate.")),
    ],
)
def test_the_page_says_how_a_canary_ended(told: Callable[[], Story], expected: tuple[str, ...]) -> None:
    """Promoted, taken back, under way or never begun: the page says which, and why."""
    words = words_of(page_of(told))
    assert all(part in words for part in expected)


def test_who_else_ended_a_canary_is_told() -> None:
    """A canary that a person stopped is not put on the judge, whose last word is told beside it."""
    story = Story()
    story.canary(Traffic(), windows=3)
    story.restore("cancellation", "the run was stopped")
    words = words_of(render_canary_html(canary_evidence(story.events, story.policy)))
    assert (
        "A rollback was started: the run was stopped. The judge had not found against the candidate." in words
    )
    assert "(cancellation)" in words


def test_a_rollback_for_another_reason_than_the_verdict_is_told() -> None:
    """Where the plan ended the canary of a candidate that looked well, the page does not call it cleared."""
    story = Story()
    story.canary(Traffic(), windows=3)
    story.restore("plan", "The canary has used up its budget.")
    words = words_of(render_canary_html(canary_evidence(story.events, story.policy)))
    assert (
        "A rollback was started: The canary has used up its budget. The judge had not found against" in words
    )
    assert "may continue" not in words


def test_verdicts_that_do_not_come_out_again_are_told() -> None:
    """Where judging again gave another verdict, the page names the window instead of vouching for it."""
    document = document_of(good)
    differs = Recomputed(agrees=False, first_difference=7)
    runs = [document.runs[0].model_copy(update={"recomputed": differs})]
    words = words_of(render_canary_html(document.model_copy(update={"runs": runs})))
    assert "window 7 differs from the record" in words
    assert "all are the same" not in words


# --- what the page is ---


@pytest.mark.parametrize("told", STORIES)
def test_the_page_loads_nothing_and_runs_nothing(told: Callable[[], Story]) -> None:
    """No script, no link, no image, no outside address: the page can be opened years later, offline."""
    page = page_of(told)
    assert not parse_page(page).tags & {"script", "link", "img", "iframe", "object", "style-sheet", "image"}
    reason = "http://127.0.0.1:9901"  # what was said of the source
    assert "://" not in page.replace(reason, "")
    assert all(place.startswith("url(#") for place in re.findall(r"url\([^)]*", page))
    assert "@import" not in page


def test_the_page_is_made_for_light_dark_and_print() -> None:
    """The style has colours for both schemes, dark on screens alone, and rules for paper."""
    page = page_of(good)
    assert page.count("@media screen and (prefers-color-scheme: dark)") == 2
    assert "@media print" in page


@pytest.mark.parametrize("told", STORIES)
def test_the_pictures_are_valid_and_described(told: Callable[[], Story]) -> None:
    """Each picture is well-formed SVG with a title and a description; ids are the page's only ones of that name."""
    pictures = pictures_of(page_of(told))
    ids = [
        element.attrib["id"] for picture in pictures for element in picture.iter() if "id" in element.attrib
    ]
    assert len(ids) == len({*ids})
    for picture in pictures:
        title, description = picture[0], picture[1]
        assert (title.tag, description.tag) == ("title", "desc")
        assert title.text
        assert description.text
        assert picture.attrib["aria-labelledby"] == f"{title.attrib['id']} {description.attrib['id']}"
        for element in picture.iter():
            values = " ".join(element.attrib.values())
            assert {*re.findall(r"url\(#([^)]+)\)", values)} <= {*ids}
            assert element.attrib.get("href", f"#{ids[0]}").removeprefix("#") in ids


@pytest.mark.parametrize(
    ("told", "charts"),
    [
        (good, ["weight", "errors", "latency", "evidence", "requests"]),
        (one_window, ["weight", "errors", "latency", "evidence", "requests"]),
        (no_traffic, ["weight", "errors", "evidence", "requests"]),
        (one_window_without_data, ["weight", "evidence"]),
        (no_window, []),
        (refused, []),
    ],
)
def test_what_is_known_is_drawn(told: Callable[[], Story], charts: list[str]) -> None:
    """There is a chart for each thing that the windows tell, and none for what they do not."""
    ids = [picture[0].attrib["id"] for picture in pictures_of(page_of(told))]
    assert ids == [f"chart-{chart}-t" for chart in charts]


def test_colours_and_fonts_come_from_the_page() -> None:
    """No picture has a colour or a font of its own, so that dark pages have light lines; text stays text."""
    for told in (failing, without_data):
        for picture in pictures_of(page_of(told)):
            drawn = " ".join(value for element in picture.iter() for value in element.attrib.values())
            assert not re.search(r"#[0-9a-fA-F]{6}\b", drawn)
            assert "font-family" not in drawn
            assert "DejaVu" not in drawn
            assert picture.findall(".//text")


def test_stable_and_candidate_differ_without_colours() -> None:
    """Stable's line is broken, the candidate's is not."""
    errors = pictures_of(page_of(good))[1]
    lines = [
        element.attrib["style"]
        for element in errors.iter("path")
        if "stroke: var(--stable)" in element.attrib.get("style", "")
        or "stroke: var(--candidate)" in element.attrib.get("style", "")
    ]
    assert lines
    assert all(("dasharray" in line) == ("--stable" in line) for line in lines)


def test_stretches_without_data_are_hatched() -> None:
    """Where nobody saw anything every chart is hatched, and only there."""
    hatched = [bool(picture.findall(".//pattern")) for picture in pictures_of(page_of(without_data))]
    assert hatched == [True] * 5
    assert not any(picture.findall(".//pattern") for picture in pictures_of(page_of(good)))


def test_the_same_document_gives_the_same_bytes() -> None:
    """A page that is written again is the same to the last byte, whatever was drawn before it."""
    assert render_canary_html(document_of(failing)) == page_of(failing)


def test_the_size_of_a_page_does_not_grow_with_its_windows() -> None:
    """Four hundred windows are taken together: the page stays below what a browser draws at once."""
    assert document_of(hundreds_of_windows).runs[0].totals.windows >= 400
    assert len(page_of(hundreds_of_windows)) < 300_000


def test_drawing_leaves_no_trace() -> None:
    """Matplotlib is imported only to draw, never its pyplot, and its settings are as before."""
    program = (
        "import sys\n"
        "from slipway_core.reports.canary.page import render_canary_html\n"
        "from tests.support.reports.canary_pages import document_of, good\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import matplotlib\n"
        # To look at the backend imports pyplot.
        "names = [name for name in matplotlib.rcParams if name != 'backend']\n"
        "before = [matplotlib.rcParams[name] for name in names]\n"
        "render_canary_html(document_of(good))\n"
        "assert [matplotlib.rcParams[name] for name in names] == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stderr == ""
    assert ran.returncode == 0


_NASTY = st.text(alphabet=st.sampled_from("<>&\"'x/= "), max_size=20)


@settings(max_examples=examples(7))
@given(_NASTY, _NASTY, _NASTY)
def test_no_text_becomes_markup(model: str, reason: str, author: str) -> None:
    """Whatever names, reasons and authors hold, the page's elements stay the same."""
    document = document_of(begun_anew).to_document()
    window = {**document["runs"][-1]["windows"][-1], "reason": reason}
    runs = [
        {
            **run,
            "windows": [*run["windows"][:2], window],
            "decisions": [{**run["decisions"][0], "words": reason, "by": author}],
        }
        for run in document["runs"]
    ]
    plain = parse_page(page_of(begun_anew)).tags
    changed = {**document, "model": model, "release_id": author, "reason": reason, "runs": runs}
    assert parse_page(render_canary_html(CanaryEvidence.from_document(changed))).tags == plain
