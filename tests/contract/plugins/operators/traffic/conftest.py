"""Rollbacks of services that nobody can count and that have no pods: what their drain waits for never comes."""

from __future__ import annotations

from typing import Any

import pytest
from slipway.traffic import drain

from include.model_release.rollout.pods import drain as rules


@pytest.fixture(autouse=True)
def _short_drain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the drain end at once where nobody can tell; a test about the drain has the real one."""
    if "drain" in request.node.name:
        return

    def without_grace(**settings: Any) -> rules.Drain:
        return rules.Drain(**{**settings, "drain_s": 0.0})

    monkeypatch.setattr(drain, "Drain", without_grace)
    monkeypatch.setattr(rules, "SETTLE_S", 0.2)
    monkeypatch.setattr(rules, "UNSEEN_LIMIT_S", 0.2)
