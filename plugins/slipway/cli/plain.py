"""Text of a server, made safe for a terminal."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t")
# Control, format (which turns the direction of writing), private use, and halves of pairs.
_STRIPPED = frozenset({"Cc", "Cf", "Co", "Cs"})


def plain(text: str, *, lines: bool = False) -> str:
    """Return the text without what a terminal would obey or hide: escapes, bells, changes of direction.

    :param lines: keep the ends of lines; else each becomes a space.
    """
    kept = "".join(
        character
        for character in text
        if character in _KEPT or unicodedata.category(character) not in _STRIPPED
    )
    return kept if lines else " ".join(kept.split())
