"""Read a page as a browser would: which tags it has, what it says, whether every tag is closed."""

from __future__ import annotations

from html.parser import HTMLParser

VOID_TAGS = {"meta", "br", "link", "input"}


class Page(HTMLParser):
    """Check that every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(tag, name) for name, _ in attrs}
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(tag, name) for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parse_page(page: str) -> Page:
    """Return the page as it was read; every element is closed."""
    parser = Page()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser
