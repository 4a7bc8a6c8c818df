"""Evidence that may be looked at after every window: e-processes for two rates, or for one against a limit.

An e-process is the fortune of someone who bets against a claim ("the candidate is no worse") at fair odds.
While the claim is true, the chance that the fortune *ever* reaches 1/alpha is at most alpha, however often
one looks (Ville's inequality; Howard, Ramdas, McAuliffe, Sekhon, "Time-uniform, nonparametric, nonasymptotic
confidence sequences", Ann. Statist. 2021; Waudby-Smith and Ramdas, "Estimating means of bounded random
variables by betting", JRSS B 2024; for counts in online experiments Lindon and Malek, "Anytime-valid
inference for multinomial count data", NeurIPS 2022).

**One window.** Stable answers m_s requests with failure rate s, the candidate m_c with rate c. The claim is
"c is at most s + margin", s unknown and free to be another one in every window. Against the alternative
(s1, c1) beyond the margin, bet the likelihood ratio p(s1, c1) / p(s0, c0), with (s0, c0) on the border
c0 = s0 + margin where

    m_s (s1 - s0) / (s0 (1 - s0)) + m_c (c1 - c0) / (c0 (1 - c0)) = 0

which is the reverse information projection (Turner, Ly, Grünwald, "Generic E-variables for exact sequential
k-sample tests", 2021). It is fair: write
k_s and k_c for the two quotients, so m_s k_s + m_c k_c = 0 with k_c > 0. Under the rates s0 + x and
c0 + x - y, y not negative, the mean of the bet is (1 + x k_s)^m_s (1 + (x - y) k_c)^m_c, which is at most
exp(x (m_s k_s + m_c k_c)) = 1, because 1 + z is at most exp(z).

**Clumps.** Failures that come together make n requests worth less than n. With correlation rho inside a
window the variance grows by 1 + (n - 1) rho (Kish's design effect), so counts are divided by it: the bet uses
m = n / (1 + (n - 1) rho). For independent failures the bet stays fair (Jensen: the mean of a power below 1 is
at most the power of the mean); for clumped ones this makes the variance right and no more: it is an
approximation, not a theorem. One window also multiplies a bet by `cap` at most; throwing winnings away is
always fair, and a single window, however dreadful, cannot decide alone.

**Not knowing** the size of the difference: the stake is spread over a grid of differences. Not knowing its
beginning: stake 1/(t (t + 1)) enters in window t, the rest stays in the pocket, and a late fault need not
first win back what healthy hours have lost. Both are averages of e-processes, hence e-processes.

**Limits.** Validity rests on "next window's mean, given the past, obeys the claim" and on the correction for
clumps; clumps that last over several windows and hit the candidate alone look like a fault, because for users
they are one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Differences in rate on which the stake is spread: doubling covers 0.5 % to 95 % with at most a factor 1.4
# between the true difference and the nearest one, which costs a bet that is tuned so little off a few percent
# of its growth.
DIFFERENCES: Floats = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 0.95])

_RATE_MIN = 1e-6
_BISECTIONS = 44
_PURSE_LIMIT = 1e12


def effective_count(count: float, correlation: float) -> float:
    """Return what `count` requests are worth when those of one window fail together with `correlation` (0 to
    1).
    """
    return count / (1.0 + (count - 1.0) * correlation) if count > 1 else float(count)


def border_rates(
    stable_rate: Floats, candidate_rate: Floats, weights: tuple[float, float], margin: float
) -> tuple[Floats, Floats]:
    """Return the rates (s0, c0 = s0 + margin) of the claim that the alternative is hardest to tell from.

    `weights` are the effective counts (m_s, m_c). Arrays broadcast; the alternative must lie beyond the
    margin.
    """
    m_stable, m_candidate = weights
    low, high = np.broadcast_arrays(stable_rate, candidate_rate - margin)
    low, high = low.astype(np.float64), high.astype(np.float64)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        shifted = middle + margin
        slope = m_stable * (stable_rate - middle) / (middle * (1 - middle))
        slope = slope + m_candidate * (candidate_rate - shifted) / (shifted * (1 - shifted))
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    border = 0.5 * (low + high)
    return border, border + margin


def log_ratio(events: float, count: float, rate_1: Floats, rate_0: Floats) -> Floats:
    """Return the log likelihood ratio of `events` out of `count` for `rate_1` against `rate_0`."""
    ratio: Floats = events * np.log(rate_1 / rate_0) + (count - events) * np.log((1 - rate_1) / (1 - rate_0))
    return ratio


@dataclass(frozen=True)
class Tally:
    """Events (errors, slow answers) out of a count, both of one window."""

    events: float
    count: float

    def effective(self, correlation: float) -> Tally:
        """Return the tally shrunk by the design effect, its rate kept."""
        if self.count <= 0:
            return Tally(0.0, 0.0)
        size = effective_count(self.count, correlation)
        return Tally(self.events * size / self.count, size)


def two_rate_bets(
    stable: Tally, candidate: Tally, *, stable_guess: float, margin: float, correlation: float
) -> Floats:
    """Return what one window multiplies each bet by against "the candidate's rate is at most stable's plus
    `margin`".

    One bet for each of `DIFFERENCES`. `stable_guess` must stem from earlier windows only.
    """
    if stable.count <= 0 or candidate.count <= 0:
        return np.ones_like(DIFFERENCES)
    stable, candidate = stable.effective(correlation), candidate.effective(correlation)
    # Room above for the candidate's rate: margin and all differences must fit below 1.
    low = np.full_like(DIFFERENCES, min(max(stable_guess, _RATE_MIN), 0.98 - min(margin, 0.97)))
    high = np.minimum(low + margin + DIFFERENCES * (1 - low - margin), 1 - _RATE_MIN)
    border_low, border_high = border_rates(low, high, (stable.count, candidate.count), margin)
    logs = log_ratio(stable.events, stable.count, low, border_low)
    logs = logs + log_ratio(candidate.events, candidate.count, high, border_high)
    return np.exp(np.minimum(logs, 700.0))


def one_rate_bets(candidate: Tally, *, limit: float, correlation: float) -> Floats:
    """Return what one window multiplies each bet by against "the candidate's rate is at most `limit`" (0 to
    1).
    """
    if candidate.count <= 0:
        return np.ones_like(DIFFERENCES)
    candidate = candidate.effective(correlation)
    border = np.full_like(DIFFERENCES, min(max(limit, _RATE_MIN), 1 - 2 * _RATE_MIN))
    high = np.minimum(border + DIFFERENCES * (1 - border), 1 - _RATE_MIN)
    return np.exp(np.minimum(log_ratio(candidate.events, candidate.count, high, border), 700.0))


def no_worse_bet(
    stable: Tally, candidate: Tally, *, stable_guess: float, margin: float, correlation: float
) -> Floats:
    """Return what one window multiplies the bet by against "the candidate is worse than stable by the margin
    or more".

    One bet, on no difference at all (shape (1,)); with a margin of 0 nothing can ever be shown and it stays
    1.
    """
    if stable.count <= 0 or candidate.count <= 0 or margin <= 0:
        return np.ones(1)
    stable, candidate = stable.effective(correlation), candidate.effective(correlation)
    rate = np.array([min(max(stable_guess, _RATE_MIN), 1 - margin - 2 * _RATE_MIN)])
    low, high = _border_from_below(rate, (stable.count, candidate.count), margin)
    logs = log_ratio(stable.events, stable.count, rate, low)
    logs = logs + log_ratio(candidate.events, candidate.count, rate, high)
    return np.exp(np.minimum(logs, 700.0))


def _border_from_below(rate: Floats, weights: tuple[float, float], margin: float) -> tuple[Floats, Floats]:
    """Return the projection of (rate, rate) on the border c0 = s0 + margin: s0 lies between rate - margin and
    rate.
    """
    m_stable, m_candidate = weights
    low, high = np.maximum(rate - margin, _RATE_MIN * 1e-3), rate.copy()
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        shifted = middle + margin
        slope = m_stable * (rate - middle) / (middle * (1 - middle))
        slope = slope + m_candidate * (rate - shifted) / (shifted * (1 - shifted))
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    border = 0.5 * (low + high)
    return border, border + margin


class Purse:
    """A fortune spread over bets and over beginnings; `wealth` is the evidence, 1 at the start.

    `bets` is their number, `cap` the most that one window may multiply a bet by.
    """

    def __init__(self, bets: int, cap: float) -> None:
        self.cap = cap
        self.stakes: Floats = np.zeros(bets)
        self.windows = 0
        self.peak = 1.0

    @property
    def wealth(self) -> float:
        """The fortune now: all stakes, and what has not been staked yet."""
        return float(self.stakes.sum()) + 1.0 / (self.windows + 1)

    def bet(self, factors: Floats) -> None:
        """Stake this window's share and settle the bets with `factors` (shape (bets,), each >= 0)."""
        self.windows += 1
        share = 1.0 / (self.windows * (self.windows + 1)) / len(self.stakes)
        settled = (self.stakes + share) * np.minimum(factors, self.cap)
        self.stakes = np.minimum(settled, _PURSE_LIMIT)
        self.peak = max(self.peak, self.wealth)

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready; floats survive JSON unchanged."""
        return {
            "cap": self.cap if math.isfinite(self.cap) else None,
            "stakes": [float(stake) for stake in self.stakes],
            "windows": self.windows,
            "peak": self.peak,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Purse:
        """Rebuild a purse from `to_dict`'s form."""
        cap = math.inf if value["cap"] is None else float(value["cap"])
        purse = cls(bets=len(value["stakes"]), cap=cap)
        purse.stakes = np.array(value["stakes"], dtype=np.float64)
        purse.windows = int(value["windows"])
        purse.peak = float(value["peak"])
        return purse


def cap_for(threshold: float, bets: int, windows: int) -> float:
    """Return the cap with which the first `windows` windows, and no fewer, can bring one of `bets` bets to
    `threshold`.

    A bet starts with its share of the first stake, 1 / (2 bets). With one window there is no cap.
    """
    if windows <= 1:
        return math.inf
    return float((2.0 * bets * threshold) ** (1.0 / windows))
