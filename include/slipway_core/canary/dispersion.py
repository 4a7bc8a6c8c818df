"""How strongly do events of one window come together? Learnt from stable's own windows.

The wealth processes of `e_process.py` hold for every intra-window correlation up to the one they are made for, and the
larger that is, the less a window is worth. Nobody knows it beforehand; the windows of stable tell. So each
hypothesis test keeps the wealth for each of some correlations, and counts the smallest of

    wealth(rho) * (how much better all correlations together explain stable's windows than rho does)

The second factor is a Bayes factor. Given correlation and rate s, the k of n events of a window are negative
binomial (gamma-mixed Poisson, the rare-event limit of the beta-binomial) with shape s S and mean n s,
S = 1/rho - 1; s is unknown and integrated out with weight 1/s on both sides. For such a nuisance of scale this
weight is the right Haar measure, for which the Bayes factor is itself an e-process under each rho, whatever s
(Pérez-Ortiz, Lardy, de Heide, Grünwald, "E-statistics, group invariance and anytime-valid testing", Ann.
Statist. 2024; on a grid, and for counts, this holds approximately).

That the product is one again is an approximation, because both factors look at stable's events: the wealth falls
with them and the Bayes factor, where it speaks for bursts, falls too. `make bench-judge` shows the false-alarm
rate for errors in bursts, which is far below alpha. What the theorem alone gives is the first wealth, the one for the
largest correlation, without the second factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Factors of 1.7 between neighbours: wealth for a correlation so much too large is a few percent smaller.
LEVELS = 8
SPREAD = 40.0
_INDEPENDENT = 1e-6
RATES: Floats = np.geomspace(1e-5, 0.7, 48)
# Half of the weight on "no bursts", the rest spread evenly over the others.
_PRIOR: Floats = np.array([0.5 / LEVELS] * LEVELS + [0.5])


def correlation_levels(largest: float) -> Floats:
    """Return the correlations that wealth is kept for, falling from `largest`; shape (8,)."""
    return np.geomspace(max(largest, _INDEPENDENT), max(largest / SPREAD, _INDEPENDENT), LEVELS)


def weight_of(correlation: Floats) -> Floats:
    """Return S = 1/rho - 1, the weight of the beta (and the scale of the gamma) distribution."""
    return 1.0 / correlation - 1.0


class Dispersion:
    """What stable's windows say about the correlations of some kinds of events.

    Holds log likelihoods of shape (kinds, LEVELS + 1, rates).

    :param kinds: how many kinds of events there are: errors, and slow answers at each level.
    :param largest: the largest correlation.
    """

    def __init__(self, kinds: int, largest: float) -> None:
        self._grid = tuple(float(level) for level in (*correlation_levels(largest), _INDEPENDENT))
        self._weights = weight_of(np.array(self._grid))[:, np.newaxis]
        self._shapes = RATES * self._weights
        self._logs: Floats = np.zeros((kinds, LEVELS + 1, len(RATES)))

    def add(self, kind: int, events: int, count: int) -> None:
        """Take in stable's `events` of one kind out of `count` in one window."""
        if count <= 0:
            return
        together = self._weights + count
        self._logs[kind] += (
            _log_rising(self._grid, events)
            + self._shapes * np.log(self._weights / together)
            + events * np.log(count / together)
        )

    def log_factors(self) -> Floats:
        """Return, by kind and correlation, the log of how much better all together explain the windows.

        Shape (kinds, LEVELS). A level stands for all correlations down to the next one; the smallest has
        no factor, because nothing below it is asked for.
        """
        top = self._logs.max(axis=2, keepdims=True)
        each = top[:, :, 0] + np.log(np.exp(self._logs - top).mean(axis=2))
        best = each.max(axis=1, keepdims=True)
        mixed = best + np.log((np.exp(each - best) * _PRIOR).sum(axis=1, keepdims=True))
        factors: Floats = mixed - np.maximum(each[:, :-2], each[:, 1:-1])
        return np.concatenate([factors, np.zeros((len(factors), 1))], axis=1)

    def to_list(self) -> list[Any]:
        """Return the state, JSON-ready."""
        rows: list[Any] = self._logs.tolist()
        return rows

    def restore(self, value: Sequence[Any]) -> None:
        """Take over a state of `to_list`.

        :raises ValueError: it is the state of other kinds of events, or none.
        """
        logs = np.array(value, dtype=np.float64)
        if logs.shape != self._logs.shape:
            raise ValueError(f"log likelihoods of shape {logs.shape}, expected {self._logs.shape}")
        if np.isnan(logs).any():
            raise ValueError("log likelihoods that are not numbers")
        self._logs = logs


@lru_cache(maxsize=4096)
def _log_rising(grid: tuple[float, ...], events: int) -> Floats:
    """Return log Gamma(a + events) - log Gamma(a) for every shape a; the same few counts come again and again."""
    # Not at import: reading a DAG file needs no special functions.
    from scipy.special import gammaln

    shapes = RATES * weight_of(np.array(grid))[:, np.newaxis]
    rising: Floats = gammaln(shapes + events) - gammaln(shapes)
    return rising
