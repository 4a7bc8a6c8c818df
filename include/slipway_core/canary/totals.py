"""What a canary, or one step of it, has seen so far: sums over windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipway_core.metrics.samples import Window

# More requests or seconds than there will be.
_PLENTY = 1e18
# What sums of seconds may lose to rounding.
CLOCK_ERROR_S = 1e-6


@dataclass(frozen=True)
class Totals:
    """Sums over windows of both revisions: of users' windows, and apart from them what was replayed and streamed.

    `idle_seconds` are those in which the candidate was asked nothing, less those in which golden requests were: they
    let no bake time pass.
    """

    seconds: float = 0.0
    windows: int = 0
    stable_requests: int = 0
    stable_errors: int = 0
    candidate_requests: int = 0
    candidate_errors: int = 0
    replayed_windows: int = 0
    replayed_requests: int = 0
    replayed_errors: int = 0
    stable_replayed_requests: int = 0
    stable_replayed_errors: int = 0
    streamed_windows: int = 0
    streamed_requests: int = 0
    streamed_errors: int = 0
    stable_streamed_requests: int = 0
    stable_streamed_errors: int = 0
    idle_seconds: float = 0.0

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Totals:
        """Rebuild sums from `to_dict`'s form.

        :raises ValueError: a sum is not a number from 0.
        :raises TypeError: there is a sum of another name.
        """
        strange = [name for name, sum_ in value.items() if not _is_sum(sum_)]
        if strange:
            raise ValueError(f"{', '.join(strange)} of the sums: not a number from 0")
        return cls(**value)

    def plus(self, window: Window) -> Totals:
        """Return the sums with one more window, counted under its source."""
        if window.source == "replay":
            answered = min(window.candidate.requests, window.stable.requests - window.stable.errors) > 0
            return replace(
                self,
                replayed_windows=self.replayed_windows + 1,
                replayed_requests=self.replayed_requests + window.candidate.requests,
                replayed_errors=self.replayed_errors + window.candidate.errors,
                stable_replayed_requests=self.stable_replayed_requests + window.stable.requests,
                stable_replayed_errors=self.stable_replayed_errors + window.stable.errors,
                idle_seconds=max(0.0, self.idle_seconds - window.seconds * answered),
            )
        if window.source == "stream":
            return replace(
                self,
                streamed_windows=self.streamed_windows + 1,
                streamed_requests=self.streamed_requests + window.candidate.requests,
                streamed_errors=self.streamed_errors + window.candidate.errors,
                stable_streamed_requests=self.stable_streamed_requests + window.stable.requests,
                stable_streamed_errors=self.stable_streamed_errors + window.stable.errors,
            )
        return replace(
            self,
            seconds=self.seconds + window.seconds,
            windows=self.windows + 1,
            stable_requests=self.stable_requests + window.stable.requests,
            stable_errors=self.stable_errors + window.stable.errors,
            candidate_requests=self.candidate_requests + window.candidate.requests,
            candidate_errors=self.candidate_errors + window.candidate.errors,
            idle_seconds=self.idle_seconds + window.seconds * _is_idle(window),
        )

    @property
    def baked_s(self) -> float:
        """The seconds in which the candidate was seen being asked: what a bake consists of."""
        return self.seconds - self.idle_seconds

    @property
    def replays_that_count(self) -> int:
        """Replayed requests that say something of the candidate: as many as stable gave a good answer to.

        What fails for both (a way to the revisions that does not work, a golden set that is too old) shows nothing.
        """
        return min(self.replayed_requests, self.stable_replayed_requests - self.stable_replayed_errors)

    @property
    def streams_that_count(self) -> int:
        """Streamed requests that say something of the candidate: those that each of the two gave a good answer to."""
        return min(
            self.streamed_requests - self.streamed_errors,
            self.stable_streamed_requests - self.stable_streamed_errors,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form; sums that not every canary has are in it where there were any."""
        return {
            name: value
            for name, value in vars(self).items()
            if (self.streamed_windows or "streamed_" not in name) and (value or name != "idle_seconds")
        }


def _is_idle(window: Window) -> bool:
    """Return whether the candidate was asked nothing; one that was asked and does not answer was not idle."""
    return window.candidate.requests == 0 and not window.candidate.begun


def _is_sum(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _PLENTY
