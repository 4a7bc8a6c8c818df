"""A matplotlib figure as a piece of an HTML page: text stays text, and colors come from the page.

Matplotlib is imported by the functions here, not with the module: it takes seconds, and DAG files are parsed
often.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FONT = re.compile(r"font(-family)?: (?:(?P<size>[0-9.]+px) )?'[^;]*(?:;\s*|$)")
_FRAGMENT = re.compile(r"url\(#([^)]+)\)")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")


@contextmanager
def svg_settings() -> Iterator[None]:
    """Set matplotlib's own defaults, whatever this machine's are, so that the same drawing gives the same bytes."""
    import matplotlib.style

    ours = {"svg.fonttype": "none", "svg.hashsalt": "slipway", "font.size": 9.0, "axes.unicode_minus": True}
    with matplotlib.style.context(["default", ours]):
        yield


def begin_at_zero(plot: Axes, *, x: bool = False) -> None:
    """Let the y axis begin at 0, with room above the highest mark; call it when everything is drawn.

    :param x: whether the x axis begins at 0 too.
    """
    # Matplotlib leaves room in proportion to the drawn range, which is little where all marks are about as high.
    plot.update_datalim([(0, 0)], updatex=x)
    plot.autoscale_view()
    plot.set_ylim(bottom=0)
    if x:
        plot.set_xlim(left=0)


def inline_svg(figure: Figure, name: str, title: str, description: str, colours: Mapping[str, str]) -> str:
    """Return `figure` as an `<svg>` element for an HTML page; call it within `svg_settings`.

    :param name: keeps its ids apart from those of other figures.
    :param title: what it shows, in a few words, for those who cannot see it.
    :param description: what it shows, in full.
    :param colors: the names of the page's CSS variables by the colors that were drawn with (`#rrggbb`).
    """
    drawn = io.StringIO()
    figure.patch.set_visible(False)
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(drawn, format="svg", metadata=no_metadata)
    root = ElementTree.fromstring(drawn.getvalue())  # noqa: S314  matplotlib wrote it, just now
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": f"{name}-t {name}-d"}
    _drop(root, {"metadata", "style"})
    for element in root.iter():
        _adopt(element, name, colours)
    body = "".join(ElementTree.tostring(child, encoding="unicode") for child in root)
    head = "".join(f' {key}="{escape(value)}"' for key, value in root.attrib.items())
    labels = f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>'
    return f"<svg{head}>{labels}{body}</svg>"


def _drop(element: ElementTree.Element, tags: set[str]) -> None:
    for child in list(element):
        if _bare(child.tag) in tags:
            element.remove(child)
        else:
            _drop(child, tags)


def _adopt(element: ElementTree.Element, name: str, colours: Mapping[str, str]) -> None:
    """Strip namespaces, which an HTML page does not need, and tie ids, fonts and colors to the page."""
    element.tag = _bare(element.tag)
    element.tail = None
    if element.tag != "text":
        element.text = None
    element.attrib = {_bare(key): value for key, value in element.attrib.items()}
    for key, value in element.attrib.items():
        if key == "id":
            element.attrib[key] = f"{name}-{value}"
        elif key == "href":
            element.attrib[key] = f"#{name}-{value.removeprefix('#')}"
        elif key in ("style", "clip-path"):
            value = _FRAGMENT.sub(rf"url(#{name}-\1)", value)
            value = _FONT.sub(lambda match: f"font-size: {match['size']}; " if match["size"] else "", value)
            element.attrib[key] = _COLOUR.sub(lambda match: _variable(match[0], colours), value)
        elif key == "d":
            element.attrib[key] = value.replace("\n", "")


def _variable(colour: str, colours: Mapping[str, str]) -> str:
    return f"var(--{colours[colour]})" if colour in colours else colour


def _bare(name: str) -> str:
    return name.rpartition("}")[2]
