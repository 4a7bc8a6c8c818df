"""How long an answer may take: a limit that grows with what the model's own single answers take."""

from __future__ import annotations

import math
from dataclasses import dataclass

# How many times a model's own time an answer may take: the machine may be busy with others.
SLACK = 10.0
# No answer is waited for longer, unless the release file says so.
LONGEST_S = 120.0
# Of the first answer, when nothing was measured yet.
FIRST_S = 120.0


@dataclass(frozen=True)
class Deadlines:
    """Limits by what was measured.

    :ivar least_s: the release file's `request_timeout_s`, the limit of a fast model's answer.
    :ivar single_s: what a single answer takes while nothing else is asked; 0 where it was not measured.
    """

    least_s: float
    single_s: float = 0.0

    def first_s(self) -> float:
        """Return the limit of the first answer."""
        return max(self.least_s, FIRST_S)

    def limit_s(self, waiting: int = 1) -> float:
        """Return the limit of an answer.

        :param waiting: how many rows, its own included, may have to be answered one after the other before it comes.
        """
        return max(self.least_s, min(LONGEST_S, SLACK * self.single_s * max(1, waiting)))

    def at_once(self, instances: int, most: int, within_s: float) -> int:
        """Return how many requests are sent at once, so that such instances answer them within that time.

        :param most: no more than so many, but two for each instance: fewer would not reach all of them.
        """
        least = 2 * instances
        fitting = math.inf if not self.single_s else within_s * instances / self.single_s
        return max(least, int(min(fitting, max(most, least))))
