"""The body of a page of Data Docs, taken over element by element: what is not known to be harmless is left out.

The library's pages load scripts, styles, fonts and pictures from other hosts, and put names of columns into the page
without escaping them. What is written here has only elements and attributes of the lists below, and all text escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from html.parser import HTMLParser

_KEPT = frozenset(
    {
        "a",
        "b",
        "br",
        "code",
        "div",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "li",
        "nav",
        "ol",
        "p",
        "pre",
    }
    | {"section", "small", "span", "strong", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"}
)
_VOID = frozenset({"br", "hr"})
# Left out with all that is in them.
_DROPPED = frozenset(
    {
        "button",
        "footer",
        "form",
        "head",
        "iframe",
        "label",
        "math",
        "noscript",
        "object",
        "script",
        "select",
        "style",
    }
    | {"svg", "template", "textarea", "title", "video", "audio"}
)
_VALUES: Mapping[str, re.Pattern[str]] = {
    "id": re.compile(r"[A-Za-z][\w.-]{0,199}", re.ASCII),
    "class": re.compile(r"[\w -]{1,500}", re.ASCII),
    "colspan": re.compile(r"[1-9][0-9]{0,2}"),
    "rowspan": re.compile(r"[1-9][0-9]{0,2}"),
    "scope": re.compile(r"col|row"),
}
_ANCHOR = re.compile(r"#[A-Za-z][\w.-]{0,199}", re.ASCII)
_UPWARDS = re.compile(r"(?:\.\.?/)+")


def sanitized(page: str, links: Mapping[str, str]) -> str:
    """Return the content of a page's body, harmless.

    :param page: the whole page, as the library makes it.
    :param links: by a page's path in the library's own site: where it lies now. Other links lead nowhere.
    """
    reader = _Reader(links)
    reader.feed(page)
    reader.close()
    return reader.finished()


class _Reader(HTMLParser):
    """Writes what it reads, as far as it is on the lists."""

    def __init__(self, links: Mapping[str, str]) -> None:
        super().__init__(convert_charrefs=True)
        self._links = links
        self._written: list[str] = []
        self._open: list[str] = []
        self._dropped = ""
        self._depth = 0

    def finished(self) -> str:
        """Return what was written, with every element closed."""
        while self._open:
            self._written.append(f"</{self._open.pop()}>")
        return "".join(self._written)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropped:
            self._depth += tag == self._dropped
        elif tag in _DROPPED:
            self._dropped, self._depth = tag, 1
        elif tag in _KEPT:
            self._written.append(f"<{tag}{self._attributes(tag, attrs)}>")
            if tag not in _VOID:
                self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # In HTML the slash means nothing: only an element without content ends with its first tag.
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._dropped:
            self._depth -= tag == self._dropped
            self._dropped = self._dropped if self._depth else ""
        elif tag in self._open:
            while (last := self._open.pop()) != tag:
                self._written.append(f"</{last}>")
            self._written.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._dropped:
            self._written.append(escape(data))

    def _attributes(self, tag: str, attrs: list[tuple[str, str | None]]) -> str:
        kept = {
            name: value
            for name, value in attrs
            if value and name in _VALUES and _VALUES[name].fullmatch(value)
        }
        if tag == "a":
            target = self._target(next((value for name, value in attrs if name == "href"), None) or "")
            kept |= {"href": target} if target else {}
        return "".join(f' {name}="{escape(value)}"' for name, value in kept.items())

    def _target(self, href: str) -> str:
        if _ANCHOR.fullmatch(href):
            return href
        return self._links.get(_UPWARDS.sub("", href, count=1) if _UPWARDS.match(href) else href, "")
