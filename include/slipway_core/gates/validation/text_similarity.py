"""The similarity of two texts, 0 to 1, by the measures that `validation.match` names.

Words are what white space parts, after Unicode normalisation (NFKC) and case folding; so a language without white
space between words is compared sentence by sentence. `token_f1` is the F1 score of Rajpurkar et al. 2016 (SQuAD), but
articles and punctuation count.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Literal

TextMatch = Literal["exact", "normalized", "contains", "prefix", "token_f1"]


def similarity(expected: str, answered: str, match: TextMatch) -> float:
    """Return the similarity of the answer to what was expected, 0 to 1.

    An expected text without any word is met only by an answer without any.
    """
    if match == "exact":
        return float(expected == answered)
    wanted, found = _words(expected), _words(answered)
    if match == "normalized" or not wanted:
        return float(wanted == found)
    if match == "contains":
        return float(" ".join(wanted) in " ".join(found))
    return _prefix(wanted, found) if match == "prefix" else _f1(wanted, found)


def _words(text: str) -> list[str]:
    return unicodedata.normalize("NFKC", text).casefold().split()


def _prefix(wanted: list[str], found: list[str]) -> float:
    """Return the share of the wanted words that stand at the beginning of those found, up to the first other one."""
    same = 0
    for one, other in zip(wanted, found, strict=False):
        if one != other:
            break
        same += 1
    return same / len(wanted)


def _f1(wanted: list[str], found: list[str]) -> float:
    """Return 2 × common / (wanted + found), which is the harmonic mean of precision and recall."""
    common = sum((Counter(wanted) & Counter(found)).values())
    return 2 * common / (len(wanted) + len(found))
