"""Does the candidate answer at all, and does it answer as soon as stable does? By requests that began.

An error is an answer. What is not answered shows itself otherwise:

- *none answered*: requests of the candidate began, and their clients gave up, or a whole window went by and more of
  them are active than is normal; not one was answered, while stable answered. That is a fail at once.
- *nobody seen*: the source cannot tell how many began, and for some windows it shows no request of the candidate where
  chance excludes that nobody was sent there. The candidate answers nobody, or is sent nobody: a fail either way.
- *more active than normal*: at a window's end the candidate has clearly more requests that began and are not over than
  stable has for as many. That passes nothing; what becomes of them, later windows show.

What is normal is what stable has. An open gRPC call may be a stream; where stable has as many of them, for as many that
began, they are no sign of anything.

`RouterShare` is asked where the source shows that nobody began.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipway_core.canary.router_share import divergence, surely_misses
from slipway_core.metrics.samples import Sample, Window
from slipway_core.written_numbers import number

# How likely it is, at most, that a candidate that answers as stable does is said to answer nobody.
NONE_ANSWERED_ALPHA = 1e-4
# Windows, and seconds, without a request of the candidate before it is said that nobody is seen: it may be a pause.
_SILENT_WINDOWS, _SILENT_S = 2, 5.0
# How long a request whose client still waits was active at least before it is said to hang.
_WAITING_S = 2.5
# The same for more active requests than normal, which only delays a pass.
ACTIVE_ALPHA = 1e-2
# Tolerated factor between the candidate's active requests and stable's, beside the margin of latency.
TOLERATED_ACTIVE = 2.0
# A candidate may be so much less likely to answer within a window, for no fault of its own.
_TOLERATED_ANSWERS = 0.5


@dataclass(frozen=True)
class Answers:
    """What the windows so far say of answers, from users' requests alone.

    The first seven are of the windows in a row in which the candidate answered nobody: their length, less that of the
    first; its requests that began before
    the last of them and are active, those that began in it, all that began, those that were given up, and what stable
    did meanwhile. The next three are of the windows in a row in which no request of the candidate was seen at all. Then
    follow sums over windows of what began and what was active at their ends, for stable, and the same of the
    candidate's last window.
    """

    is_begun: bool = False
    unanswered_s: float = 0.0
    waiting: int = 0
    began_last: int = 0
    began: int = 0
    given_up: int = 0
    stable_began: int = 0
    stable_answered: int = 0
    silent_s: float = 0.0
    silent_windows: int = 0
    silent_stable: int = 0
    stable_flow: int = 0
    stable_active: int = 0
    candidate_flow: int = 0
    candidate_active: int = 0

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Answers:
        """Rebuild the counts from `to_dict`'s form.

        :raises ValueError: one isn't a number from 0, or is missing.
        :raises TypeError: there is one of another name.
        """
        if missing := cls.__dataclass_fields__.keys() - value.keys():
            raise ValueError(f"{', '.join(sorted(missing))}: missing")
        counts = {name: count for name, count in value.items() if name != "is_begun"}
        kinds = {name: int | float if name.endswith("_s") else int for name in counts}
        if any(
            not isinstance(one, kinds[name]) or isinstance(one, bool) or not 0 <= one < math.inf
            for name, one in counts.items()
        ):
            raise ValueError(f"{counts}: not numbers from 0")
        return cls(is_begun=bool(value["is_begun"]), **counts)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return dict(vars(self))

    def next_step(self) -> Answers:
        """Return what is known when a step begins: its first window may have begun at the weight before."""
        return replace(self, is_begun=False, silent_s=0.0, silent_windows=0, silent_stable=0)

    def plus(self, window: Window) -> Answers:
        """Return the counts with one more window; replayed requests say nothing of users'."""
        if window.source != "users":
            return self
        stable, candidate = window.stable, window.candidate
        known = replace(
            self,
            is_begun=True,
            stable_flow=self.stable_flow + _began(stable),
            stable_active=self.stable_active + (stable.active or 0),
            candidate_flow=_began(candidate),
            candidate_active=candidate.active or 0,
        )
        return known._unanswered(window)._silent(window, first=not self.is_begun)

    def _unanswered(self, window: Window) -> Answers:
        stable, candidate = window.stable, window.candidate
        if candidate.begun is None or _answered(candidate):
            nothing = Answers()
            names = (
                "unanswered_s",
                "waiting",
                "began_last",
                "began",
                "given_up",
                "stable_began",
                "stable_answered",
            )
            return replace(self, **{name: getattr(nothing, name) for name in names})
        # Those that have just begun may be answered soon; those of the window before had this one for it.
        return replace(
            self,
            unanswered_s=self.unanswered_s + (window.seconds if self.began else 0.0),
            waiting=min(self.waiting + self.began_last, candidate.active or 0),
            began_last=candidate.begun,
            began=self.began + max(candidate.begun, candidate.requests),
            given_up=self.given_up + candidate.unanswered,
            stable_began=self.stable_began + max(_began(stable), stable.requests),
            stable_answered=self.stable_answered + _answered(stable),
        )

    def _silent(self, window: Window, *, first: bool) -> Answers:
        candidate = window.candidate
        if first or candidate.begun is not None or candidate.requests:
            return replace(self, silent_s=0.0, silent_windows=0, silent_stable=0)
        return replace(
            self,
            silent_s=self.silent_s + window.seconds,
            silent_windows=self.silent_windows + 1,
            silent_stable=self.silent_stable + window.stable.requests,
        )

    def failure(self, weight: int | None, latency_margin_percent: float) -> str | None:
        """Return in words why the candidate fails; None if it may answer.

        :param weight: of the step, in percent; None: no step was begun.
        :param latency_margin_percent: how much slower the candidate may be.
        """
        is_old = self.unanswered_s >= _WAITING_S
        waits = is_old and self._is_unusual(latency_margin_percent, NONE_ANSWERED_ALPHA)
        # What is overdue is among both.
        unanswered = min(self.began, self.given_up + (self.waiting if waits else 0))
        if unanswered and self.stable_began:
            rate = _TOLERATED_ANSWERS * min(1.0, self.stable_answered / self.stable_began)
            if unanswered * math.log1p(-rate) <= math.log(NONE_ANSWERED_ALPHA):
                return (
                    f"The candidate fails: it answers no requests. {unanswered} of its requests started and none was "
                    f"answered; stable answered {self.stable_answered} of {self.stable_began} in the same time."
                )
        is_silent = self.silent_windows >= _SILENT_WINDOWS and self.silent_s >= _SILENT_S
        if is_silent and surely_misses(weight, self.silent_stable):
            return (
                f"The candidate fails: it answers no requests, or gets none. At weight {weight} % no request of it was "
                f"seen in {self.silent_windows} windows, {self.silent_stable} of stable's were. The metrics source "
                "shows only answers, so which of the two is unknown."
            )
        return None

    def doubt(self, latency_margin_percent: float) -> str | None:
        """Return in words that too many requests are active for a pass; None if nothing shows it.

        :param latency_margin_percent: how much slower the candidate may be, and so have more requests active.
        """
        if not self._is_unusual(latency_margin_percent, ACTIVE_ALPHA):
            return None
        normal = self.candidate_flow * self.stable_active / self.stable_flow
        return (
            f"{self.candidate_active} of the candidate's requests have started and are not answered yet; judging by "
            f"stable, {number(normal)} would be normal."
        )

    def _is_unusual(self, latency_margin_percent: float, alpha: float) -> bool:
        """Return whether the candidate has more active requests than stable has for as many that began."""
        mine, theirs = self.candidate_active, self.stable_active
        if not mine or not self.stable_flow:
            return False
        factor = TOLERATED_ACTIVE * (1 + latency_margin_percent / 100)
        # Where none began in this window, what is active began before.
        odds = factor * max(1, self.candidate_flow) / self.stable_flow
        share, expected = mine / (mine + theirs), odds / (1 + odds)
        return share > expected and (mine + theirs) * divergence(share, expected) > -math.log(alpha)


def _began(sample: Sample) -> int:
    return sample.requests if sample.begun is None else sample.begun


def _answered(sample: Sample) -> int:
    return sample.requests - sample.unanswered
