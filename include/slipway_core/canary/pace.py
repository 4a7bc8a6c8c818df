"""How fast a model's golden requests are answered, and what follows for how it is asked."""

from __future__ import annotations

from dataclasses import dataclass

# How many times as long as stable's single answer one may take: servers answer users besides.
SLACK = 5.0
# No answer is waited for longer. Within it stable must answer one request that nothing waits in front of.
LONGEST_S = 60.0
# To one revision, of a fast model.
UNDER_WAY_MOST = 64


@dataclass
class Pace:
    """How fast golden requests are answered, and so how many may be under way and how long one is waited for.

    Measured on stable alone: a candidate that became slow gets no more time for it.

    :param least_s: the limit of a fast model's answer.
    :ivar single_s: the shortest time in which stable has answered; None: it was not measured yet.
    """

    least_s: float
    single_s: float | None = None

    def saw(self, seconds: float) -> None:
        """Take one good answer of stable into account."""
        self.single_s = seconds if self.single_s is None else min(self.single_s, seconds)

    @property
    def under_way_most(self) -> int:
        """The number of requests that one instance answers within `least_s`; at least 1."""
        if not self.single_s:
            return UNDER_WAY_MOST
        return max(1, int(min(UNDER_WAY_MOST, self.least_s / self.single_s)))

    def limit_s(self, waiting: int) -> float:
        """Return how long an answer is waited for, as the last of so many that are under way."""
        return max(self.least_s, min(LONGEST_S, SLACK * (self.single_s or 0.0) * waiting))
