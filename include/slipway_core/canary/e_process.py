"""Evidence that may be looked at after every window: e-processes against "the candidate is no worse".

An e-process is the wealth of somebody who bets against a null hypothesis at fair odds. While the hypothesis is true,
the chance that the wealth *ever* reaches 1/alpha is at most alpha, however often one looks (Ville 1939; Howard,
Ramdas, McAuliffe, Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Ann. Statist.
2021; Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024).

**The null hypothesis.** In a window stable has rate s and the candidate rate c of some event (an error, a slow
answer). The hypothesis is "c <= s + margin"; s may be another one in every window, so that a blip which hits both is
no evidence. Events of one window may come together: given its rate p, a revision's k of n are beta-binomial with
intra-window correlation at most rho. Write S = 1/rho - 1.

**The factor of a window.** For a tilt u > 0, with r = n_c / n_s and r u < 1, one window multiplies the wealth by

    (1 + u / (1 + n_c u / S))^k_c  *  (1 - r u)^k_s  *  (1 + n_c u / S)^(-S margin)

Its expectation is at most 1 whatever s is. A beta variable of mean p and weight S is a contraction of a gamma variable
of shape p S and scale 1/S, and convex functions grow under spreading; with 1 + x <= exp(x) for the binomial part,

    E (1 + v)^k_c <= (1 - n_c v / S)^(-c S)    and    E (1 - w)^k_s <= (1 + n_s w / S)^(-s S).

The first bracket becomes (1 + n_c u / S)^(c S), the second (1 + n_c u / S)^(-s S), and their product with the
last factor is (1 + n_c u / S)^(S (c - s - margin)), at most 1 under the hypothesis. The same convexity makes it
hold for every smaller rho ("sub-gamma" processes in Howard et al.). Events that are counted in part, v of 1,
are covered too: (1 - w)^v <= 1 - w v.

With rho = 0 and no margin the factor is the likelihood ratio of "of all events, the candidate's share is
(1 + U) n_c / ((1 + U) n_c + n_s)" against U = 0, for u = U / (1 + r + U r): the conditional test of two
Poisson rates, and, mixed over U, the test for counts of Lindon and Malek ("Anytime-valid inference for
multinomial count data", NeurIPS 2022).

**How large the difference is** nobody knows: the wealth is spread over `RATIOS`. **When it begins** nobody knows:
most of the wealth takes part from the first window on, the rest little by little, so that a late fault need not first
win back what healthy hours have lost. Both are averages of e-processes, hence e-processes.

**Caution.** One window raises a component at most `cap`-fold (from its weight at least): to give up a gain never
raises the expectation, and no single window decides alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# "The candidate's rate is (1 + U) times the tolerated one": factors of 4, so that no difference is more than
# a factor 2 from the nearest ratio, and weights by how much each matters: a regression of a few times the rate
# is what canaries are for; a far larger one is found in no time with any weight.
RATIOS: Floats = np.array([0.125, 0.5, 2.0, 8.0, 32.0])
RATIO_WEIGHTS: Floats = np.array([1.0, 2.0, 4.0, 3.0, 1.0]) / 11.0
# Nine tenths of the wealth take part from the first window on.
FIRST_SHARE = 0.9
# More than this decides nothing any more; what is beyond it is given up, so that hours of it stay a number.
PLENTY = 1e12


@dataclass(frozen=True)
class Tally:
    """Events (errors, slow answers; perhaps in part) out of a count, both of one revision in one window."""

    events: float
    count: float


@dataclass(frozen=True)
class NullHypothesis:
    """ "The rate of `suspect` is at most that of `reference` plus `margin`" (a fraction, perhaps negative).

    Without a reference the margin itself is the limit.
    """

    suspect: Tally
    reference: Tally | None
    margin: float

    @property
    def is_testable(self) -> bool:
        """Whether the window says anything about it: both sides have requests."""
        return self.suspect.count > 0 and (self.reference is None or self.reference.count > 0)


def log_factors(hypotheses: Sequence[NullHypothesis], weights: Floats) -> Floats:
    """Return the logs of what one window multiplies the wealth by, shape (hypotheses, weights, RATIOS).

    :param hypotheses: null hypotheses about this window; all must be testable.
    :param weights: the S of the module's formula, shape (J,); rho = 1 / (S + 1).
    """
    table = np.array(
        [
            (
                one.suspect.events,
                one.suspect.count,
                one.reference.events if one.reference else 0.0,
                one.suspect.count / one.reference.count if one.reference else 0.0,
                one.margin,
            )
            for one in hypotheses
        ],
        dtype=np.float64,
    ).reshape(-1, 5, 1, 1)
    events, count, reference_events, r, margin = (table[:, column] for column in range(5))
    tilt = RATIOS / (1.0 + r + RATIOS * r)
    spread = count * tilt / weights[:, np.newaxis]
    gained = events * np.log1p(tilt / (1.0 + spread))
    lost = reference_events * np.log1p(-r * tilt)
    logs: Floats = gained + lost - weights[:, np.newaxis] * margin * np.log1p(spread)
    return logs


class WealthProcesses:
    """The wealth of several hypothesis tests, each for several correlations: components of shape (T, J, RATIOS).

    :param tests: how many hypothesis tests there are (T).
    :param correlations: for how many correlations each is kept (J).
    :param caps: the most that one window may raise a component by, one for each test.
    """

    def __init__(self, tests: int, correlations: int, caps: Sequence[float]) -> None:
        self.caps: Floats = np.array(caps, dtype=np.float64)
        self.components: Floats = np.zeros((tests, correlations, len(RATIOS)))
        self.windows = np.zeros(tests, dtype=np.int64)

    @property
    def wealth(self) -> Floats:
        """The wealth now, shape (T, J): all components, and what does not take part yet."""
        reserve = np.where(self.windows > 0, (1.0 - FIRST_SHARE) / np.maximum(self.windows, 1), 1.0)
        wealth: Floats = self.components.sum(axis=2) + reserve[:, np.newaxis]
        return wealth

    def multiply(self, tests: Sequence[int], logs: Floats) -> None:
        """Add this window's share of the reserve to `tests`, then multiply them by the window's factors.

        A test that is not named has seen nothing and keeps what it has.

        :param tests: the rows of the tests.
        :param logs: the logs of the factors, shape (len(tests), J, RATIOS).
        """
        rows = np.array(tests, dtype=np.int64)
        self.windows[rows] += 1
        components = self.components[rows] + self._share(rows)[:, np.newaxis, np.newaxis] * RATIO_WEIGHTS
        limit = np.minimum(
            self.caps[rows, np.newaxis, np.newaxis] * np.maximum(components, RATIO_WEIGHTS), PLENTY
        )
        # In logs, where the product of a small component and an enormous factor is a number.
        with np.errstate(divide="ignore"):
            components = np.exp(np.minimum(np.log(components) + logs, np.log(limit)))
        self.components[rows] = components

    def _share(self, rows: NDArray[np.int64]) -> Floats:
        """What begins to take part now: nine tenths at first, then 1/10 * 1/(t (t - 1)), which sums to one tenth."""
        t = self.windows[rows].astype(np.float64)
        return np.where(t == 1, FIRST_SHARE, (1.0 - FIRST_SHARE) / np.maximum(t * (t - 1.0), 1.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready; floats survive JSON unchanged."""
        return {"wealth": self.components.tolist(), "windows": self.windows.tolist()}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take over a state of `to_dict`.

        :raises ValueError: it is the state of other tests, or none.
        """
        components = np.array(value["wealth"], dtype=np.float64)
        windows = np.array(value["windows"], dtype=np.int64)
        if components.shape != self.components.shape or windows.shape != self.windows.shape:
            raise ValueError(f"wealth of shape {components.shape}, expected {self.components.shape}")
        if not (np.isfinite(components).all() and (components >= 0).all() and (windows >= 0).all()):
            # With NaN the evidence would be below every threshold, forever.
            raise ValueError("wealth that is not a number from 0")
        self.components, self.windows = components, windows
