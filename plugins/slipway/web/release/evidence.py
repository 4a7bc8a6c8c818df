"""The reports of a release, as links: the pages first, their data after them."""

from __future__ import annotations

from dataclasses import dataclass

from slipway_core.bucket_layout import repository_paths
from slipway_core.read_model.release_view import ReleaseView
from slipway_core.reports.data_docs.page import INDEX

_PAGES = {
    "canary.html": "The canary, window by window",
    "smoke_test.html": "Smoke test on a separate server",
    "validation.html": "Validation on the golden set",
    INDEX: "Data Docs of great-expectations",
    "benchmark.html": "Benchmark",
    "mirror.html": "Comparison of mirrored requests",
    "variants.json": "Choice of the variant",
    "convert.json": "Conversion",
    "release.json": "The release file at that time",
}


@dataclass(frozen=True)
class EvidenceLink:
    """One report.

    :param name: below the version's evidence, as the address of its page has it.
    :param is_page: it is made for people.
    """

    name: str
    title: str
    is_page: bool


def evidence_links(view: ReleaseView) -> tuple[EvidenceLink, ...]:
    """Return the links to the reports of the newest attempt."""
    line = view.line
    root = repository_paths(line.model, line.version).evidence
    links = []
    for key in view.evidence:
        short = key.removeprefix(view.evidence_prefix)
        title = _PAGES.get(short, short)
        links.append(EvidenceLink(key.removeprefix(root), title, short in _PAGES))
    order = list(_PAGES.values())
    return tuple(
        sorted(links, key=lambda link: (not link.is_page, order.index(link.title) if link.is_page else 0))
    )
