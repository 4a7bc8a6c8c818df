"""The validation page: self-contained, well-formed, safe."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.reports.validation.page import render_report_html
from tests.support.reports.documents import VALIDATION
from tests.support.reports.html import parse_page


def test_the_page_says_why_nothing_was_compared() -> None:
    """A stable version that was left out is no version that does not exist; why it was stands on the page."""
    report = {**VALIDATION, "stable_version": None, "not_compared": "version 2 is an engine <for> TensorRT 8"}
    text = " ".join(parse_page(render_report_html(report)).text)
    assert "not compared with the stable version" in text
    assert "Not compared: version 2 is an engine <for> TensorRT 8" in text
    assert "no stable version to compare with" not in text


def test_a_kind_that_is_not_installed_here_is_shown_by_its_own_names() -> None:
    """Another package's kind, whose report outlives the package: no figure and no example is left out."""
    report = {
        **VALIDATION,
        "kind": "sign",
        "numbers": {"rows": 9, "right": 0.5, "right_min": 0.9, "lag": 3.25, "lag_max": 2},
        "worst": [{"row": 4, "answer": "wrong-side"}],
    }
    text = " ".join(parse_page(render_report_html(report)).text)
    for words in ("right", "at least 0.9", "lag", "at most 2", "Answer", "wrong-side"):
        assert words in text


def test_the_page_tells_what_matters() -> None:
    """Outcome, both versions, the numbers, each expectation and the examples are on the page."""
    text = " ".join(parse_page(render_report_html(VALIDATION)).text)
    for words in (
        "✗ fail",
        "version 2",
        "85.00",
        "93.00",
        "every row was answered",
        "pixels",
        "none",
    ):
        assert words in text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    """No script, no link, no image, no outside address: the page can be opened years later, offline."""
    page = render_report_html(VALIDATION)
    assert not parse_page(page).tags & {"script", "link", "img", "iframe", "object"}
    assert "://" not in page
    assert "url(" not in page
    assert "@import" not in page


def test_the_page_is_made_for_light_dark_and_print() -> None:
    """The style has colours for both schemes and rules for paper."""
    page = render_report_html(VALIDATION)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_the_pictures_are_valid_and_described() -> None:
    """Each picture is well-formed SVG with words for those who cannot see it."""
    pictures = re.findall(r"<svg.*?</svg>", render_report_html(VALIDATION), re.DOTALL)
    assert len(pictures) == 3
    for picture in pictures:
        assert ElementTree.fromstring(picture).attrib["aria-label"]  # noqa: S314 - our own page


_NASTY = st.text(alphabet=st.sampled_from("<>&\"'x/= "), max_size=20)


@given(_NASTY, _NASTY, _NASTY)
def test_no_text_becomes_markup(model: str, meaning: str, tensor: str) -> None:
    """Whatever names and texts hold, the page's elements stay the same."""
    plain = parse_page(render_report_html(VALIDATION))
    report = {
        **VALIDATION,
        "model": model,
        "reasons": [meaning],
        "expectations": [{"type": tensor, "meaning": meaning, "success": True, "observed": tensor}],
        "signature": {"inputs": [{"name": tensor, "datatype": meaning, "shape": [1]}]},
    }
    assert parse_page(render_report_html(report)).tags == plain.tags


@pytest.mark.parametrize("missing", sorted(VALIDATION))
def test_a_missing_part_is_left_out(missing: str) -> None:
    """A report without one of its parts still gives a page."""
    parse_page(render_report_html({key: value for key, value in VALIDATION.items() if key != missing}))
    parse_page(render_report_html({}))


def test_a_regression_is_shown_by_its_errors() -> None:
    """Figures that are no shares stand beside their limits; an example shows its error; -1 is a number here."""
    numbers = {"rows": 3, "mae": 1.25, "mae_max": 1, "r2": 0.5, "r2_min": None, "not_finite_rows": 1}
    worst = [{"row": 2, "label": 4.0, "predicted": -1.0, "error": -5.0, "stable": None}]
    page = render_report_html({**VALIDATION, "kind": "regression", "numbers": numbers, "worst": worst})
    text = " ".join(parse_page(page).text)
    for words in ("Mean absolute error", "1.25", "at most 1", "R²", "no limit", "The largest errors"):
        assert words in text
    assert "1 with answers that are not finite" in text
    assert "-5.0000" in text
    assert "-1.0000" in text


def test_texts_are_shown_beside_each_other_and_never_become_markup() -> None:
    """Question, golden answer, answer and stable's; a text that is markup, and one that is missing, do no harm."""
    numbers = {"rows": 2, "score": 0.5, "score_min": 0.9, "match": "exact", "unanswered_rows": 1}
    example = {"row": 0, "asked": "<script>q</script>", "label": "a\nb", "score": 0.5, "stable": "theirs"}
    worst = [{**example, "predicted": "<i>mine</i>"}, {**example, "predicted": None}]
    page = parse_page(
        render_report_html(
            {**VALIDATION, "kind": "text", "numbers": numbers, "worst": worst, "confusion": None}
        )
    )
    text = " ".join(page.text)
    for words in ("<script>q</script>", "<i>mine</i>", "theirs", "none", "Likeness", "(exact)", "1 without"):
        assert words in text
    assert not page.tags & {"script", "i"}


def test_a_pass_says_so() -> None:
    """A version that passed is told as passed, without reasons against it."""
    text = " ".join(parse_page(render_report_html({**VALIDATION, "outcome": "pass", "reasons": []})).text)
    assert "✓ pass" in text
    assert "Not met" not in text


def _unsure(**changes: Any) -> dict[str, Any]:
    """Return a report whose accuracy is 0 and has no limit."""
    expectation = {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "correct", "min_value": 0.0, "max_value": 1.0},
        "meaning": "accuracy is at least 0.0%",
        "success": True,
        "observed": 0.0,
        "interval": [0.0, 0.037],
        "method": "Wilson",
        "decision": "no_limit",
    }
    return {
        "model": "m",
        "version": 2,
        "kind": "classification",
        "outcome": "warn",
        "warnings": ["`correct` is 0, and no limit is set for it"],
        "numbers": {"rows": 100, "accuracy": 0.0, "accuracy_min": 0.0},
        "expectations": [expectation],
        "health": [{"check": "batch_invariant", "status": "warn", "summary": "a row is answered otherwise"}],
        "recalls": [
            {"class": 3, "rows": 4, "recall": 0.0, "interval": [0, 0.49], "stable_recall": 1.0, "lost": True}
        ],
        "confidence": 0.95,
        **changes,
    }


def test_an_accuracy_of_nothing_is_never_a_green_pass() -> None:
    """A pass that nothing was held against is marked as not sure, with the interval and what is missing."""
    page = render_report_html(_unsure())
    assert "! warn" in page
    assert "✓ pass" not in page
    assert "– no limit" in page
    assert "0.0 to 3.7 %, by these rows; no limit" in page
    assert "! warn<" in page
    assert "batch invariant" in page
    assert "✗ lost" in page


def test_an_inconclusive_report_says_so() -> None:
    """What is not decided is neither a pass nor a refusal."""
    page = render_report_html(_unsure(outcome="inconclusive", reasons=["so few rows"]))
    assert "? inconclusive" in page
    assert "passed" not in page.split("</header>")[0].split("<h1>")[1]
