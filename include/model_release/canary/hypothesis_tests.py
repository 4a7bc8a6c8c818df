"""What the judge asks of every window, and the fortunes that stand for the answers so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from include.model_release.canary.dispersion import Dispersion, correlation_levels, weight_of
from include.model_release.canary.e_process import Claim, Floats, Fortunes, Tally, log_bets
from include.model_release.canary.latency import (
    above,
    above_within,
    add_histograms,
    bound_below,
    bounds_at,
    ceiling_bound,
    levels_up_to,
)
from include.model_release.canary.latency_totals import LatencySeen, histogram_from_list, histogram_to_list
from include.model_release.metrics.samples import Window
from include.model_release.spec.rollout.analysis import AnalysisPolicy, HypothesisName

_ERRORS = "errors"
_LATENCY = "latency@"
_NO_WORSE = "no worse: "
# What a fortune may stand above the threshold, because the factor for clumps may take some of it.
_ROOM = 4.0
# Where "no slower" can be shown; the far tail never has the data for it.
_SHOWN_UP_TO = 0.9


class Questions:
    """A fortune for each question and correlation, settled window by window.

    `error…` and `latency…` bet against "the candidate is no worse"; `no worse: …` bet against "it is worse".
    """

    def __init__(self, policy: AnalysisPolicy) -> None:
        self._policy = policy
        self._levels = levels_up_to(policy.latency_quantile)
        compared = [_ERRORS, *(f"{_LATENCY}{level:g}" for level in self._levels)]
        shown = [_ERRORS, *(f"{_LATENCY}{level:g}" for level in self._levels if level <= _SHOWN_UP_TO)]
        ceilings = [name for name in policy.shares if name.endswith("_ceiling")]
        self._against = [*compared, *ceilings]
        self._for = [f"{_NO_WORSE}{name}" for name in shown]
        self._rows = {name: row for row, name in enumerate([*self._against, *self._for])}
        # Whose events tell how events come together: a ceiling on errors and "no more errors" look at errors.
        self._clumps = {name: row for row, name in enumerate(compared)}
        self._correlations = correlation_levels(policy.burst_correlation)
        self._weights = weight_of(self._correlations)
        caps = [
            (_ROOM * policy.fail_threshold / self._share(name)) ** (1 / policy.windows_to_fail)
            for name in self._rows
        ]
        self._fortunes = Fortunes(len(self._rows), len(self._correlations), caps)
        self._dispersion = Dispersion(len(self._clumps), policy.burst_correlation)
        self._past: dict[float, int] = {}
        self._latencies = LatencySeen()
        self._warm_windows = 0
        self._logs: Floats = np.zeros(())
        self._look()

    def ask(self, window: Window) -> None:
        """Bet on one window. What is asked about, and the stakes, follow from earlier windows alone."""
        claims = {name: claim for name, claim in self._claims(window).items() if claim.is_open}
        if claims:
            rows = [self._rows[name] for name in claims]
            self._fortunes.bet(rows, log_bets(list(claims.values()), self._weights))
        if self._asks_latency:
            self._latencies.add(window)
        self._learn(window)
        self._look()

    def evidence(self) -> dict[HypothesisName, float]:
        """Return the evidence against the candidate by family, each with its share of the stake."""
        found: dict[HypothesisName, float] = {}
        for family, share in self._policy.shares.items():
            rows = [self._rows[name] for name in self._against if _family(name) == family]
            found[family] = share * float(np.exp(self._logs[rows]).mean())
        return found

    def no_worse(self) -> float:
        """Return the evidence that the candidate is no worse beyond the margin: that of the least sure part.

        Latency counts once it has been seen; a source without latencies shows nothing of them.
        """
        rows = [
            row
            for name, row in self._rows.items()
            if name in self._for and (name.endswith(_ERRORS) or self._fortunes.windows[row] > 0)
        ]
        return float(np.exp(self._logs[rows]).min())

    def correlation(self) -> float:
        """Return the correlation of errors that the evidence is counted with."""
        return float(self._correlations[self._least[self._rows[_ERRORS]]])

    def slowness(self, family: HypothesisName) -> str:
        """Say the latencies that `family`, `latency` or `latency_ceiling`, is about; "" where none were seen.

        Of the levels that are compared it is the one with most evidence.
        """
        ceiling_ms = self._policy.latency_ceiling_ms
        if family == "latency_ceiling" and ceiling_ms is not None:
            return self._latencies.against_ceiling(self._policy.latency_quantile, ceiling_ms)
        worst = max(self._levels, key=lambda level: float(self._logs[self._rows[f"{_LATENCY}{level:g}"]]))
        return self._latencies.against_stable(worst)

    # --- asking ---

    @property
    def _asks_latency(self) -> bool:
        """Whether the candidate has had the windows in which a cold model may be slow."""
        return self._warm_windows >= self._policy.latency_grace_windows

    def _claims(self, window: Window) -> dict[str, Claim]:
        stable = Tally(window.stable.errors, window.stable.requests)
        candidate = Tally(window.candidate.errors, window.candidate.requests)
        margin = self._policy.error_margin_percent / 100.0
        claims = {
            _ERRORS: Claim(candidate, stable, margin),
            f"{_NO_WORSE}{_ERRORS}": Claim(stable, candidate, -margin),
        }
        if self._policy.error_ceiling_percent is not None:
            claims["error_ceiling"] = Claim(candidate, None, self._policy.error_ceiling_percent / 100.0)
        if self._asks_latency:
            claims.update(self._latency_claims(window))
        return claims

    def _latency_claims(self, window: Window) -> dict[str, Claim]:
        stable, candidate = window.stable.latency_buckets, window.candidate.latency_buckets
        shared = {*stable} & {*candidate}
        claims = {}
        for level, bound in zip(self._levels, bounds_at(self._past, self._levels), strict=True):
            if bound is None or bound not in shared:
                continue
            # How much slower is no worse: the candidate above the bound, stable above the bound less the margin.
            slow = above(candidate, bound)
            tolerated = above_within(stable, bound / (1.0 + self._policy.latency_margin_percent / 100.0))
            claims[f"{_LATENCY}{level:g}"] = Claim(slow, tolerated, 0.0)
            if level <= _SHOWN_UP_TO:
                claims[f"{_NO_WORSE}{_LATENCY}{level:g}"] = Claim(tolerated, slow, 0.0)
        ceiling_ms = self._policy.latency_ceiling_ms
        bound = None if ceiling_ms is None else ceiling_bound(candidate, ceiling_ms)
        if bound is not None:
            allowed = 1.0 - self._policy.latency_quantile
            claims["latency_ceiling"] = Claim(above(candidate, bound), None, allowed)
        return claims

    # --- learning ---

    def _learn(self, window: Window) -> None:
        """Take in what the next window's questions will depend on."""
        stable = window.stable
        self._dispersion.see(self._clumps[_ERRORS], stable.errors, stable.requests)
        for level, bound in zip(self._levels, bounds_at(self._past, self._levels), strict=True):
            if bound is not None and bound in stable.latency_buckets:
                # From the bound below on: what is tolerated of the candidate lies in that bucket.
                slow = above(stable.latency_buckets, bound_below(stable.latency_buckets, bound))
                self._dispersion.see(self._clumps[f"{_LATENCY}{level:g}"], int(slow.events), int(slow.count))
        if window.candidate.requests > 0:
            self._warm_windows += 1
        if stable.latency_buckets:
            # Other bounds than before cannot be compared with them: the past begins anew.
            same = not self._past or {*stable.latency_buckets} == {*self._past}
            self._past = add_histograms(self._past if same else {}, stable.latency_buckets)

    def _look(self) -> None:
        """Work out the log of each question's fortune: that of the least favourable correlation."""
        factors = self._dispersion.log_factors()
        logs = np.log(self._fortunes.wealth)
        for name, row in self._rows.items():
            clump = self._clumps.get(name.removeprefix(_NO_WORSE))
            if clump is None:
                clump = self._clumps[
                    _ERRORS if name == "error_ceiling" else f"{_LATENCY}{self._levels[-1]:g}"
                ]
            logs[row] += factors[clump]
        self._least = logs.argmin(axis=1)
        self._logs = logs.min(axis=1)

    def _share(self, name: str) -> float:
        """The share of the stake of a question against the candidate; what speaks for it has a stake of its own."""
        shares: dict[str, float] = dict(self._policy.shares.items())
        return shares.get(_family(name), 1.0)

    # --- state ---

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready."""
        return {
            "fortunes": self._fortunes.to_dict(),
            "dispersion": self._dispersion.to_list(),
            "past": histogram_to_list(self._past),
            "latencies": self._latencies.to_dict(),
            "warm_windows": self._warm_windows,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take over a state of `to_dict`; raises ValueError, KeyError or TypeError where it is none.

        A state that was saved before latencies were kept for words has none of them.
        """
        self._fortunes.restore(value["fortunes"])
        self._dispersion.restore(value["dispersion"])
        self._past = histogram_from_list(value["past"])
        self._latencies = LatencySeen.from_dict(value.get("latencies") or {"stable": [], "candidate": []})
        self._warm_windows = int(value["warm_windows"])
        self._look()


def _family(name: str) -> str:
    return "latency" if name.startswith(_LATENCY) else name
