"""The page of a canary: self-contained, well-formed, safe, and the same for the same data."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.model_release.reports.canary.evidence import canary_evidence
from include.model_release.reports.canary.page import render_canary_html
from include.model_release.spec.rollout.analysis import AnalysisPolicy
from include.model_release.spec.rollout.plan import RolloutStep
from tests.support.canary.story import STABLE_URI, STEPS, Story, Traffic
from tests.unit.model_release.reports.validation.test_page import _parsed


def good() -> Story:
    story = Story()
    story.canary(Traffic())
    story.promote()
    return story


def failing() -> Story:
    story = Story(AnalysisPolicy(error_ceiling_percent=10, latency_ceiling_ms=500))
    story.canary(Traffic(candidate_errors=0.05, bad_after_s=150))
    story.restore()
    return story


def blind() -> Story:
    story = Story()
    story.canary(Traffic(no_data_s=[(60, 81), (200, 9999)]))
    story.restore()
    return story


def begun_anew() -> Story:
    story = Story()
    story.canary(Traffic(seed=2), windows=15)
    story.canary(Traffic(seed=3))
    story.promote()
    return story


def one_window() -> Story:
    story = Story()
    story.canary(Traffic(), windows=1)
    return story


def one_blind_window() -> Story:
    story = Story()
    story.canary(Traffic(no_data_s=[(0, 99)]), windows=1)
    return story


def no_traffic() -> Story:
    story = Story()
    story.canary(Traffic(rps=0.0), windows=4)
    return story


def hundreds_of_windows() -> Story:
    story = Story()
    story.canary(
        Traffic(rps=5),
        [RolloutStep(weight=10, bake_s=2000), RolloutStep(weight=50, bake_s=2000)],
        max_bake_s=9000,
    )
    return story


def topped_up() -> Story:
    story = Story()
    steps = [RolloutStep(weight=5, bake_s=30), RolloutStep(weight=50, bake_s=30)]
    story.canary(Traffic(rps=0.2), steps, replays=Traffic(rps=10, seed=8), on_inconclusive="golden_replay")
    story.promote()
    return story


def no_window() -> Story:
    story = Story()
    story.tell("stage_started", stage="canary")
    story.tell("weight_intended", weight=5, storage_uri="x", stable_storage_uri=STABLE_URI)
    return story


def refused() -> Story:
    story = Story()
    story.tell("release_finished", outcome="refused", refused_by="validate", reason="It is too inaccurate.")
    return story


STORIES: list[Callable[[], Story]] = [
    good,
    failing,
    blind,
    begun_anew,
    one_window,
    one_blind_window,
    no_traffic,
    hundreds_of_windows,
    topped_up,
    no_window,
    refused,
]


@functools.cache
def document_of(told: Callable[[], Story]) -> dict[str, Any]:
    story = told()
    return canary_evidence(story.events, story.policy, planned=STEPS)


@functools.cache
def page_of(told: Callable[[], Story]) -> str:
    return render_canary_html(document_of(told))


def words_of(page: str) -> str:
    return " ".join(" ".join(_parsed(page).text).split())


def pictures_of(page: str) -> list[ElementTree.Element]:
    found = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    return [ElementTree.fromstring(picture) for picture in found]  # noqa: S314 - our own page


# --- what the page says ---


def test_the_page_tells_what_matters() -> None:
    """Outcome, reason, counts, steps reached or not, decisions and how to compute it again are on the page."""
    words = words_of(page_of(failing))
    last = document_of(failing)["runs"][0]["windows"][-1]
    for expected in (
        "✗ rolled back",
        "Users are back on the stable version.",
        last["reason"],
        "The step at 25 % failed after",
        "For this reason a rollback was begun.",
        "not reached",
        "All questions together",
        "Errors above the ceiling",
        "How to read this",
        "all came out the same",
        "python -m include.model_release.canary canary.jsonl --explain",
    ):
        assert expected in words


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (good, ("✓ promoted", "is the stable version now", "in at most 1 % of canaries")),
        (blind, ("✗ rolled back", "could not be read", "taken back", "of them blind", "+2 blind")),
        (begun_anew, ("✓ promoted", "Begun anew", "canary-run-1.jsonl")),
        (one_window, ("under way", "1", "not ended")),
        (
            topped_up,
            ("✓ promoted", "Golden requests replayed to it", "of replayed golden requests", "replayed: 1 of"),
        ),
        (no_window, ("under way", "No window was judged.", "no request")),
        (refused, ("✗ refused", "before any user was led to this version. It is too inaccurate.")),
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
    assert "A rollback was begun: the run was stopped. The judge had not condemned the candidate." in words
    assert "(cancellation)" in words


def test_a_rollback_for_another_reason_than_the_verdict_is_told() -> None:
    """Where the plan ended the canary of a candidate that looked well, the page does not call it cleared."""
    story = Story()
    story.canary(Traffic(), windows=3)
    story.restore("plan", "The canary has used up its budget.")
    words = words_of(render_canary_html(canary_evidence(story.events, story.policy)))
    assert "A rollback was begun: The canary has used up its budget. The judge had not condemned" in words
    assert "may go on" not in words


def test_verdicts_that_do_not_come_out_again_are_told() -> None:
    """Where judging again gave another verdict, the page names the window instead of vouching for it."""
    document = dict(document_of(good))
    document["runs"] = [{**document["runs"][0], "recomputed": {"agrees": False, "first_difference": 7}}]
    words = words_of(render_canary_html(document))
    assert "window 7 came out otherwise than recorded" in words
    assert "all came out the same" not in words


# --- what the page is ---


@pytest.mark.parametrize("told", STORIES)
def test_the_page_loads_nothing_and_runs_nothing(told: Callable[[], Story]) -> None:
    """No script, no link, no image, no outside address: the page can be opened years later, offline."""
    page = page_of(told)
    assert not _parsed(page).tags & {"script", "link", "img", "iframe", "object", "style-sheet", "image"}
    reason = "http://127.0.0.1:9901"  # what the blind source said
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
        (one_blind_window, ["weight", "evidence"]),
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
    for told in (failing, blind):
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


def test_blind_stretches_are_hatched() -> None:
    """Where nobody saw anything every chart is hatched, and only there."""
    hatched = [bool(picture.findall(".//pattern")) for picture in pictures_of(page_of(blind))]
    assert hatched == [True] * 5
    assert not any(picture.findall(".//pattern") for picture in pictures_of(page_of(good)))


def test_the_same_document_gives_the_same_bytes() -> None:
    """A page that is written again is the same to the last byte, whatever was drawn before it."""
    assert render_canary_html(document_of(failing)) == page_of(failing)


def test_the_size_of_a_page_does_not_grow_with_its_windows() -> None:
    """Four hundred windows are taken together: the page stays below what a browser draws at once."""
    assert document_of(hundreds_of_windows)["runs"][0]["totals"]["windows"] >= 400
    assert len(page_of(hundreds_of_windows)) < 300_000


def test_drawing_leaves_no_trace() -> None:
    """Matplotlib is imported only to draw, never its pyplot, and its settings are as before."""
    program = (
        "import sys\n"
        "from include.model_release.reports.canary.page import render_canary_html\n"
        "from tests.unit.model_release.reports.canary.test_page import document_of, good\n"
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


@settings(max_examples=15)
@given(_NASTY, _NASTY, _NASTY)
def test_no_text_becomes_markup(model: str, reason: str, author: str) -> None:
    """Whatever names, reasons and authors hold, the page's elements stay the same."""
    document = document_of(begun_anew)
    window = {**document["runs"][-1]["windows"][-1], "reason": reason}
    runs = [
        {
            **run,
            "windows": [*run["windows"][:2], window],
            "decisions": [{**run["decisions"][0], "words": reason, "by": author}],
        }
        for run in document["runs"]
    ]
    plain = _parsed(page_of(begun_anew)).tags
    changed = {**document, "model": model, "release_id": author, "reason": reason, "runs": runs}
    assert _parsed(render_canary_html(changed)).tags == plain
