"""What is done where it was waited in vain."""

from __future__ import annotations

from dataclasses import replace

from slipway_core.errors import SlipwayError
from slipway_core.rollout.actions import Action, PatchMade, Wait


class WaitFallback:
    """Since when a wait with a fallback lasts, and what came of the fallback when it was sent last."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._is_sent = False
        self._what = self._trouble = ""

    def with_trouble(self, action: Action) -> Action:
        """Return the action; a wait whose fallback could not be sent says so."""
        if not isinstance(action, Wait) or action.fallback is None:
            self._since_s, self._trouble = None, ""
            return action
        return replace(action, reason=f"{action.reason} {self._trouble}".rstrip())

    def due(self, wait: Wait, now_s: float) -> PatchMade | None:
        """Return the wait's fallback if it has lasted long enough."""
        if wait.fallback is None:
            return None
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s < wait.fallback_after_s:
            return None
        self._is_sent = True
        self._what = wait.fallback.what
        return wait.fallback

    def sent(self, accepted: bool, now_s: float) -> None:
        """Take note that what was sent was answered; a conflict is followed by the next observation's."""
        if self._is_sent and accepted:
            self._since_s, self._trouble = now_s, ""
        self._is_sent = False

    def failed(self, error: SlipwayError, now_s: float) -> bool:
        """Return whether the error is that of a fallback, and take note of it."""
        was_sent, self._is_sent = self._is_sent, False
        if was_sent:
            self._since_s = now_s
            self._trouble = f"The {self._what} could not be written: {error.in_short()}."
        return was_sent
