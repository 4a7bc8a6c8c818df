"""Pages of Data Docs: what is taken over of the library's pages, and where their links lead."""

from __future__ import annotations

import re

import pytest

from slipway_core.reports.data_docs.page import TableResult, render_index, render_library_page
from slipway_core.reports.data_docs.sanitized import sanitized

PAGE = "<html><head><script src='https://cdn/x.js'></script><style>a{}</style></head><body>%s</body></html>"


def body(content: str, **links: str) -> str:
    """Return what is left of a page's content."""
    return sanitized(PAGE % content, links)


def test_text_tables_and_signs_stay() -> None:
    """What a reader came for is taken over with its classes and anchors."""
    cell = '<td colspan="2"><i class="fas fa-times"></i> 5 &lt; 6<br>x</td>'
    content = f'<table id="t-1" class="table table-sm"><tr>{cell}</tr></table>'
    assert body(content) == content


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("<script>alert(1)</script>a", "a"),
        ("<svg><script>alert(1)</script></svg>a", "a"),
        ("<style>@import url(https://x)</style>a", "a"),
        ("<img src=https://x onerror=alert(1)>a", "a"),
        ("<p onclick=alert(1) style='background:url(https://x)'>a</p>", "<p>a</p>"),
        ("<a href='javascript:alert(1)'>a</a>", "<a>a</a>"),
        ("<a href='https://x/' target=_blank>a</a>", "<a>a</a>"),
        ("<a href='//x/index.html'>a</a>", "<a>a</a>"),
        ("<iframe src=https://x></iframe><object data=x></object><link href=x><base href=x>a", "a"),
        ("<meta http-equiv=refresh content='0;url=https://x'>a", "a"),
        ("<form action=https://x><input name=y></form><button onclick=x()>b</button>a", "a"),
        ("<p class='a\"onload=x'>a</p>", "<p>a</p>"),
        ("<p id='1 2'>a</p>", "<p>a</p>"),
        ("<math><mtext><table><style><img src=x onerror=alert(1)>", ""),
        ("<!-- <p> --><![CDATA[x]]><?php x ?>a", "a"),
        ("<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
    ],
)
def test_what_runs_or_loads_is_left_out(content: str, left: str) -> None:
    """Neither an element, an attribute nor an address of the page can run, load or lead elsewhere."""
    assert body(content) == left


def test_elements_are_closed_once_in_their_order() -> None:
    """A page that is cut, or closes what it has not opened, makes no element of ours its own."""
    assert body("</div></main><div><b>a</div>b<p>c") == "<div><b>a</b></div>b<p>c</p>"


def test_links_lead_to_the_pages_that_are_kept() -> None:
    """The library's own paths become the names beside the page; an anchor stays."""
    links = {"index.html": "index.html", "expectations/slipway/digits/golden.html": "golden_suite.html"}
    suite = "../expectations/slipway/digits/golden.html"
    page = f"<a href='../../../index.html'>a</a><a href='{suite}'>b</a><a href='#s-1'>c</a>"
    assert sanitized(page, links) == (
        '<a href="index.html">a</a><a href="golden_suite.html">b</a><a href="#s-1">c</a>'
    )


def test_a_page_is_one_file_that_loads_nothing() -> None:
    """Title and frame are ours and escaped; the policy in the head forbids scripts and loading."""
    page = render_library_page(PAGE % "<p>found</p>", "golden", "slipway.<b>.golden", of="result")
    assert "<p>found</p>" in page
    assert "slipway.&lt;b&gt;.golden" in page
    assert "default-src 'none'" in page
    assert "golden.json" in page
    assert not re.search(r"<script|<link|<img|url\(|https?:", page)


def test_the_list_links_results_and_suites() -> None:
    """Each table's result and suite are there as page and JSON, with the counts of the library."""
    document = {
        "success": False,
        "statistics": {"evaluated_expectations": 3, "successful_expectations": 2},
        "meta": {"run_id": {"run_name": "digits-<2>", "run_time": "2026-11-26T12:00:00+00:00"}},
    }
    page = render_index("digits", 2, [TableResult("golden", "slipway.digits.golden", document)])
    for name in (
        "golden.html",
        "golden.json",
        "golden_suite.html",
        "golden_suite.json",
        "../validation.html",
    ):
        assert f'href="{name}"' in page
    assert "not all met" in page
    assert "digits-&lt;2&gt;" in page


def test_a_result_without_its_parts_is_listed_all_the_same() -> None:
    """What the library has not told is a question mark, and no pass."""
    page = render_index("digits", 2, [TableResult("golden", "slipway.digits.golden", {})])
    assert "not all met" in page
    assert ">?</td>" in page
