"""How many examples a property is tried with: a few that are always the same in CI, many others in `make nightly`.

Where `SLIPWAY_EXHAUSTIVE` is 1 each property has twenty times as many examples, which chance chooses anew.
"""

from __future__ import annotations

import os

EXHAUSTIVE = os.environ.get("SLIPWAY_EXHAUSTIVE") == "1"
_FACTOR = 20
# Half of what hypothesis has: a property that does not hold is mostly seen by its first examples.
_DEFAULT = 50


def examples(count: int = _DEFAULT) -> int:
    """Return the number of examples.

    :param count: how many CI tries.
    """
    return count * _FACTOR if EXHAUSTIVE else count
