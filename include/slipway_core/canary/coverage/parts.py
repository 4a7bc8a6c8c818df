"""What the windows of a canary cover, as one list of parts: the next one is another entry of `_PARTS`.

A part is a fold over windows that has no evidence against the candidate. It says in words why a step may not pass yet,
though nothing speaks against the candidate: something was not seen, or is not as it was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.canary.coverage.answers import Answers
from slipway_core.canary.coverage.latency_seen import LatencySeen
from slipway_core.canary.router_share import RouterShare
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy


@dataclass(frozen=True)
class _Part:
    """How one fold is asked.

    :param key: its name in a saved state.
    :param fresh: the fold of no window.
    :param next_step: what is left of it when another step begins.
    :param doubt: by the policy, at a weight in percent (None: no step was begun), why nothing may pass.
    :param comes_first: whether its doubt is said before it is counted whether there were enough requests.
    """

    key: str
    fresh: Any
    next_step: Callable[[Any], Any]
    plus: Callable[[Any, Window, AnalysisPolicy], Any]
    doubt: Callable[[Any, AnalysisPolicy, int | None], str | None]
    read: Callable[[Mapping[str, Any]], Any]
    comes_first: bool = False


_PARTS = (
    # Whatever else is seen: who meets the candidate is not who was meant to.
    _Part(
        "router",
        RouterShare(),
        next_step=lambda _: RouterShare(),
        plus=lambda router, window, _: router.plus(window),
        doubt=lambda router, _, weight: router.doubt(weight),
        read=RouterShare.from_dict,
        comes_first=True,
    ),
    _Part(
        "answers",
        Answers(),
        next_step=lambda answers: answers.next_step(),
        plus=lambda answers, window, _: answers.plus(window),
        doubt=lambda answers, policy, _: answers.doubt(policy.latency_margin_percent),
        read=Answers.from_dict,
    ),
    _Part(
        "latency_seen",
        LatencySeen(),
        next_step=lambda _: LatencySeen(),
        plus=lambda seen, window, policy: seen.plus(window, policy),
        doubt=lambda seen, policy, _: seen.doubt(policy),
        read=LatencySeen.from_dict,
    ),
)


class Coverage:
    """The parts of one canary."""

    def __init__(self, policy: AnalysisPolicy) -> None:
        self._policy = policy
        self._states = {part.key: part.fresh for part in _PARTS}

    def begin_step(self) -> None:
        """Begin another step of the canary."""
        self._states = {part.key: part.next_step(self._states[part.key]) for part in _PARTS}

    def observe(self, window: Window) -> None:
        """Take in one window."""
        self._states = {part.key: part.plus(self._states[part.key], window, self._policy) for part in _PARTS}

    def failure(self, weight: int | None) -> str | None:
        """Return in words why the candidate fails without evidence: it answers nobody; None if it may answer."""
        answers: Answers = self._states["answers"]
        return answers.failure(weight, self._policy.latency_margin_percent)

    def doubt(self, weight: int | None, *, first: bool) -> str | None:
        """Return in words why nothing may pass; None if no part says so.

        :param weight: of the step, in percent; None: no step was begun.
        :param first: whether those are asked that come before the count of requests, or the others.
        """
        doubts = (
            part.doubt(self._states[part.key], self._policy, weight)
            for part in _PARTS
            if part.comes_first is first
        )
        return next((one for one in doubts if one), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready."""
        return {part.key: self._states[part.key].to_dict() for part in _PARTS}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take over a state of `to_dict`, among other keys.

        :raises ValueError: a count is invalid.
        :raises KeyError: a part of it is missing.
        :raises TypeError: a part of it has another form.
        """
        for part in _PARTS:
            self._states[part.key] = part.read(value[part.key])
