"""Evidence that may be looked at after every window: bets against "the candidate is no worse".

An e-process is the fortune of someone who bets against a claim at fair odds. While the claim is true, the
chance that the fortune *ever* reaches 1/alpha is at most alpha, however often one looks (Ville 1939; Howard,
Ramdas, McAuliffe, Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Ann. Statist.
2021; Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024).

**The claim.** In a window stable has rate s and the candidate rate c of some event (an error, a slow answer).
The claim is "c <= s + margin"; s may be another one in every window, so that a blip which hits both is no
evidence. Events of one window may come together: given its rate p, a revision's k of n are beta-binomial with
intra-window correlation at most rho. Write S = 1/rho - 1.

**The bet.** For a tilt u > 0, with r = n_c / n_s and r u < 1, one window multiplies the fortune by

    (1 + u / (1 + n_c u / S))^k_c  *  (1 - r u)^k_s  *  (1 + n_c u / S)^(-S margin)

It is fair whatever s is. A beta variable of mean p and weight S is a contraction of a gamma variable of shape
p S and scale 1/S, and convex functions grow under spreading; with 1 + x <= exp(x) for the binomial part,

    E (1 + v)^k_c <= (1 - n_c v / S)^(-c S)    and    E (1 - w)^k_s <= (1 + n_s w / S)^(-s S).

The first bracket becomes (1 + n_c u / S)^(c S), the second (1 + n_c u / S)^(-s S), and their product with the
last factor is (1 + n_c u / S)^(S (c - s - margin)), at most 1 under the claim. The same convexity makes it
fair for every smaller rho ("sub-gamma" processes in Howard et al.). Events that are counted in part, v of 1,
are covered too: (1 - w)^v <= 1 - w v.

With rho = 0 and no margin the bet is the likelihood ratio of "of all events, the candidate's share is
(1 + U) n_c / ((1 + U) n_c + n_s)" against U = 0, for u = U / (1 + r + U r): the conditional test of two
Poisson rates, and, mixed over U, the test for counts of Lindon and Malek ("Anytime-valid inference for
multinomial count data", NeurIPS 2022).

**Not knowing** how large the difference is: the stake is spread over `RATIOS`. Not knowing when it begins:
most of the stake enters with the first window, the rest little by little, so that a late fault need not first
win back what healthy hours have lost. Both are averages of e-processes, hence e-processes.

**Caution.** One window raises a bet at most `cap`-fold (from its weight at least): throwing winnings away is
always fair, and no single window decides alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# "The candidate's rate is (1 + U) times the tolerated one": factors of 4, so that no difference is more than
# a factor 2 from the nearest bet, and weights by how much each matters: a regression of a few times the rate
# is what canaries are for; a far larger one is found in no time with any stake.
RATIOS: Floats = np.array([0.125, 0.5, 2.0, 8.0, 32.0])
RATIO_WEIGHTS: Floats = np.array([1.0, 2.0, 4.0, 3.0, 1.0]) / 11.0
# Nine tenths of the stake are there from the first window on.
FIRST_SHARE = 0.9
# More than this decides nothing any more; what is beyond it is thrown away, so that hours of it stay a number.
PLENTY = 1e12


@dataclass(frozen=True)
class Tally:
    """Events (errors, slow answers; perhaps in part) out of a count, both of one revision in one window."""

    events: float
    count: float


@dataclass(frozen=True)
class Claim:
    """ "The rate of `suspect` is at most that of `reference` plus `margin`" (a fraction, perhaps negative).

    Without a reference the margin itself is the limit. With no requests on a side nothing can be bet.
    """

    suspect: Tally
    reference: Tally | None
    margin: float

    @property
    def is_open(self) -> bool:
        """Whether this window says anything about the claim."""
        return self.suspect.count > 0 and (self.reference is None or self.reference.count > 0)


def log_bets(claims: Sequence[Claim], weights: Floats) -> Floats:
    """Return the logs of what one window multiplies each bet by, shape (claims, weights, RATIOS).

    `weights` are the S of the module's formula, shape (J,); rho = 1 / (S + 1). All claims must be open.
    """
    table = np.array(
        [
            (
                claim.suspect.events,
                claim.suspect.count,
                claim.reference.events if claim.reference else 0.0,
                claim.suspect.count / claim.reference.count if claim.reference else 0.0,
                claim.margin,
            )
            for claim in claims
        ],
        dtype=np.float64,
    ).reshape(-1, 5, 1, 1)
    events, count, reference_events, r, margin = (table[:, column] for column in range(5))
    tilt = RATIOS / (1.0 + r + RATIOS * r)
    clump = count * tilt / weights[:, np.newaxis]
    won = events * np.log1p(tilt / (1.0 + clump))
    lost = reference_events * np.log1p(-r * tilt)
    logs: Floats = won + lost - weights[:, np.newaxis] * margin * np.log1p(clump)
    return logs


class Fortunes:
    """The fortunes of several questions, each for several correlations: stakes of shape (Q, J, RATIOS).

    `caps` (shape (Q,)) are the most that one window may raise a bet by.
    """

    def __init__(self, questions: int, correlations: int, caps: Sequence[float]) -> None:
        self.caps: Floats = np.array(caps, dtype=np.float64)
        self.stakes: Floats = np.zeros((questions, correlations, len(RATIOS)))
        self.windows = np.zeros(questions, dtype=np.int64)

    @property
    def wealth(self) -> Floats:
        """The fortunes now, shape (Q, J): all stakes, and what has not been staked yet."""
        unstaked = np.where(self.windows > 0, (1.0 - FIRST_SHARE) / np.maximum(self.windows, 1), 1.0)
        wealth: Floats = self.stakes.sum(axis=2) + unstaked[:, np.newaxis]
        return wealth

    def bet(self, questions: Sequence[int], logs: Floats) -> None:
        """Stake this window's share on `questions` and settle with `logs` (shape (len(questions), J, RATIOS)).

        Questions that are not named have seen nothing and keep what they have.
        """
        rows = np.array(questions, dtype=np.int64)
        self.windows[rows] += 1
        stakes = self.stakes[rows] + self._share(rows)[:, np.newaxis, np.newaxis] * RATIO_WEIGHTS
        limit = np.minimum(
            self.caps[rows, np.newaxis, np.newaxis] * np.maximum(stakes, RATIO_WEIGHTS), PLENTY
        )
        # In logs, where the product of a small stake and an enormous win is a number.
        with np.errstate(divide="ignore"):
            stakes = np.exp(np.minimum(np.log(stakes) + logs, np.log(limit)))
        self.stakes[rows] = stakes

    def _share(self, rows: NDArray[np.int64]) -> Floats:
        """What enters now: nine tenths at first, then 1/10 * 1/(t (t - 1)), which sums to one tenth."""
        t = self.windows[rows].astype(np.float64)
        return np.where(t == 1, FIRST_SHARE, (1.0 - FIRST_SHARE) / np.maximum(t * (t - 1.0), 1.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready; floats survive JSON unchanged."""
        return {"stakes": self.stakes.tolist(), "windows": self.windows.tolist()}

    def restore(self, value: dict[str, Any]) -> None:
        """Take over a state of `to_dict`; raises ValueError if it is of other questions, or none."""
        stakes = np.array(value["stakes"], dtype=np.float64)
        windows = np.array(value["windows"], dtype=np.int64)
        if stakes.shape != self.stakes.shape or windows.shape != self.windows.shape:
            raise ValueError(f"stakes of shape {stakes.shape}, expected {self.stakes.shape}")
        if not (np.isfinite(stakes).all() and (stakes >= 0).all() and (windows >= 0).all()):
            # With NaN the evidence would be below every threshold, for ever.
            raise ValueError("stakes that are no numbers from 0")
        self.stakes, self.windows = stakes, windows
