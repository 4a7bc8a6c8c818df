"""The links of a release to its reports: those made for people first, by their titles."""

from __future__ import annotations

from slipway.web.release.evidence import evidence_links
from slipway_core.reports.data_docs.page import FOLDER, INDEX
from tests.support.cli.documents import refused_view


def test_data_docs_stand_among_the_pages_for_people() -> None:
    """Their list has a title beside the gates' pages; the library's other files follow as they are called."""
    prefix = "models/digits/3/evidence/digits-3/"
    kept = (f"{prefix}{FOLDER}golden.json", f"{prefix}{INDEX}", f"{prefix}validation.html")
    view = refused_view().model_copy(update={"evidence_prefix": prefix, "evidence": kept})
    assert [(one.title, one.is_page) for one in evidence_links(view)] == [
        ("Validation on the golden set", True),
        ("Data Docs of great-expectations", True),
        (f"{FOLDER}golden.json", False),
    ]
