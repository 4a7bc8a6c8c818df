"""The candidate's own HTTPRoute, while others change it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from slipway.hooks import http_route
from slipway.hooks.http_route import HTTPRouteHook
from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.dialects.standard.candidate_route import is_own, route_name

OWN = {
    "metadata": {
        "name": route_name("digits"),
        "uid": "u",
        "resourceVersion": "1",
        "labels": {"app.kubernetes.io/managed-by": "slipway"},
    }
}


def test_a_route_that_is_always_in_conflict_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some tries, with pauses that grow, and then an error that says so: nobody asks the API without an end."""
    assert is_own(OWN, "digits")
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    asked: list[str] = []
    hook = HTTPRouteHook("slipway-digits", "models")
    monkeypatch.setattr(hook, "_read", lambda: OWN)

    def conflict(uid: str, resource_version: str) -> bool:
        asked.append(uid)
        return False

    monkeypatch.setattr(hook, "_delete", conflict)
    with pytest.raises(ClusterUnavailableError, match="changed by others during each of"):
        hook.remove("digits")
    assert len(asked) == http_route.ATTEMPTS
    assert pauses == sorted(pauses)
    assert pauses[0] > 0


def test_a_route_that_changed_once_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next reading is what is deleted."""
    answers: list[Any] = [False, True]
    hook = HTTPRouteHook("slipway-digits", "models")
    monkeypatch.setattr(hook, "_read", lambda: OWN)
    monkeypatch.setattr(hook, "_delete", lambda uid, resource_version: answers.pop(0))
    hook.remove("digits")
    assert answers == []
