"""How many requests the best sequential test would need: what ours is compared with."""

from __future__ import annotations

import math


def information(rate: float, null_rate: float) -> float:
    """Return the mean log likelihood ratio of one request that fails with `rate` against `null_rate` (both in
    (0, 1)): the Kullback-Leibler divergence of two Bernoulli distributions, in nats.
    """
    return rate * math.log(rate / null_rate) + (1 - rate) * math.log((1 - rate) / (1 - null_rate))


def expected_requests(rate: float, null_rate: float, *, alpha: float, power: float) -> float:
    """Return the mean number of the candidate's requests after which Wald's sequential probability ratio test
    decides, when they fail with `rate` and the null hypothesis is that they fail with `null_rate`.

    With beta = 1 - power,

        E[N] = (power ln(power / alpha) + beta ln(beta / (1 - alpha))) / information(rate, null_rate)

    (A. Wald, "Sequential Tests of Statistical Hypotheses", Ann. Math. Statist. 16 (1945), 117-186, section
    4.2, the overshoot neglected). No test with these two error probabilities needs fewer on average (Wald and
    Wolfowitz 1948). It is a bound that nobody reaches here: it knows both rates beforehand, tests a margin of
    zero, asks nothing of latency, looks after each request, and may also stop to *accept*.
    """
    beta = 1 - power
    gained = power * math.log(power / alpha) + beta * math.log(beta / (1 - alpha))
    return gained / information(rate, null_rate)
