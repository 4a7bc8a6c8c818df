"""Plain selectors of Prometheus with placeholders: checked, and filled in with what they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

PLACEHOLDERS = ("inference_service", "model", "namespace", "revision")
_LENGTH_LIMIT = 4000

# Of a text without white space around it: with three places for that, thousands of blank lines take seconds.
_NAME = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)?\s*(?:\{(.*)\})?", re.DOTALL)
_MATCHER = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\.)*)"\s*(?:,|$)')
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_REGEX_META = re.compile(r"[\\.+*?()|\[\]{}^$]")


def check_selector(selector: str, *, about_revision: bool = True) -> None:
    """Raise ValueError unless `selector` is a plain selector, names known placeholders, and the revision.

    A selector that does not name the revision would give both revisions the same counts, and every candidate
    would look like its stable version; `about_revision=False` is for what only says that the source sees.
    """
    placeholders = {
        found.group(1) for _, _, value in _matchers(selector) for found in _PLACEHOLDER.finditer(value)
    }
    unknown = sorted(placeholders - set(PLACEHOLDERS))
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ValueError(f"must be a selector whose placeholders are among {known}; {{{unknown[0]}}} is not")
    if about_revision and "revision" not in placeholders:
        raise ValueError("must be a selector that names {revision}: else both revisions get the same counts")


def fill(selector: str, values: Mapping[str, str]) -> str:
    """Return `selector` with its placeholders filled in, escaped for where they stand.

    Values of `=~` and `!~` are regular expressions, in which a value stands for itself alone. Raises
    ValueError where `check_selector` does.
    """
    check_selector(selector, about_revision=False)
    name, _ = _parts(selector)
    matchers = [
        f'{label}{operator}"{_filled(value, values, is_regex="~" in operator)}"'
        for label, operator, value in _matchers(selector)
    ]
    return f"{name}{{{','.join(matchers)}}}" if matchers else name


def matchers_of(selector: str) -> list[tuple[str, str, str]]:
    """Return (label, operator, value) of each matcher; the selector's own name is one of `__name__`.

    :raises ValueError: it is no plain selector.
    """
    name, _ = _parts(selector)
    of_name = [("__name__", "=", name)] if name else []
    return [
        *of_name,
        *((label, operator, _unescaped(value)) for label, operator, value in _matchers(selector)),
    ]


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found.group(1), found.group(1)), value)


def _parts(selector: str) -> tuple[str, str]:
    if len(selector) > _LENGTH_LIMIT:
        raise ValueError(f"must be at most {_LENGTH_LIMIT} characters long")
    found = _NAME.fullmatch(selector.strip())
    if found is None or not (found.group(1) or (found.group(2) or "").strip()):
        raise ValueError(
            'must be a plain selector such as requests_total{pod="x"}, without function, operator or range: '
            "the differences are taken here"
        )
    return found.group(1) or "", (found.group(2) or "").strip()


def _matchers(selector: str) -> Iterator[tuple[str, str, str]]:
    """Yield (label, operator, value as written) of each matcher."""
    _, rest = _parts(selector)
    while rest:
        found = _MATCHER.match(rest)
        if found is None:
            raise ValueError(f'must be a selector with matchers such as pod="x" in its braces, not {rest}')
        yield found.group(1), found.group(2), found.group(3)
        rest = rest[found.end() :].strip()


def _filled(value: str, values: Mapping[str, str], *, is_regex: bool) -> str:
    def escaped(found: re.Match[str]) -> str:
        text = values[found.group(1)]
        if is_regex:
            text = _REGEX_META.sub(r"\\\g<0>", text)
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return _PLACEHOLDER.sub(escaped, value)
