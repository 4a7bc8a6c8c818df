"""How much is tried: in CI a few cases of each kind that are always the same, in `make nightly` all, and many others.

Where `SLIPWAY_EXHAUSTIVE` is 1,

- each property has twenty times as many examples, which chance chooses anew;
- where each of several places is tried with each of several kinds of a fault, all pairs are tried; CI tries each place
  and each kind, but not each pair;
- tests, cases and stories with the mark `nightly` run too. Such a one tries what CI already tries, at another place,
  with another program, or as a whole of which CI tries the parts: never a rule that CI would then not hold at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet

EXHAUSTIVE = os.environ.get("SLIPWAY_EXHAUSTIVE") == "1"
_FACTOR = 20
# Half of what hypothesis has: a property that does not hold is mostly seen by its first examples.
_DEFAULT = 50


def examples(count: int = _DEFAULT) -> int:
    """Return the number of examples.

    :param count: how many CI tries.
    """
    return count * _FACTOR if EXHAUSTIVE else count


def each_with_each(places: Mapping[str, Any], kinds: Sequence[str]) -> list[ParameterSet]:
    """Return the cases of a test that tries each place with each kind: the place's values, and the kind.

    CI tries each place with one kind, the next place with the next one, so that each kind is tried as well where there
    are no more kinds than places. The other pairs are left to `make nightly`.

    :param places: their values, by name; a tuple is several arguments of the test.
    """
    cases = []
    for turn, (place, place_values) in enumerate(places.items()):
        several = place_values if isinstance(place_values, tuple) else (place_values,)
        for number, kind in enumerate(kinds):
            marks = () if number == turn % len(kinds) else pytest.mark.nightly
            cases.append(pytest.param(*several, kind, marks=marks, id=f"{place}-{kind}"))
    return cases


def nightly(*values: Any, **options: Any) -> ParameterSet:
    """Return a case of `pytest.mark.parametrize` that only `make nightly` tries.

    :param values: as `pytest.param` takes them.
    :param options: as `pytest.param` takes them.
    """
    return pytest.param(*values, marks=pytest.mark.nightly, **options)
