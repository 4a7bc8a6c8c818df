"""Carrying a goal out: what the driver adds to the domain's single steps is time."""

from __future__ import annotations

from typing import Any, cast

import pytest

from slipway.hooks.inference_service import KServeHook
from slipway.traffic import reconciler
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import TimedOutError
from slipway_core.rollout import reconciler as rules
from slipway_core.rollout.dialects.standard.observed import StandardObserved
from slipway_core.rollout.next_action import RollBack, StartCanary, next_action
from slipway_core.rollout.reconciler import Reconciliation
from slipway_sandbox.lab.simulation.edits import V2, V3
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live
from tests.support.rollout.standard_steps import given_users, patched


class UnnotedCanary:
    """A hook on a service whose controller cannot reconcile with its canary, and does once that is gone."""

    namespace, name = "models", "digits"

    def __init__(self) -> None:
        self.model: StandardModel = standard_live()
        patched(self.model, StartCanary(V3, 5, release_id="digits-3", version=3))
        given_users(self.model, 5)

    def patch(self, body: dict[str, Any], limit_s: float | None = None) -> bool:
        """Patches; the controllers act on a service without canaries alone."""
        self.model.patch(body)
        seen = self.model.read()
        assert isinstance(seen, StandardObserved)
        if not seen.view.canaries:
            self.model.settle()
        return True


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> UnnotedCanary:
    """The service, looked at without an API."""
    service = UnnotedCanary()
    monkeypatch.setattr(reconciler, "observe_service", lambda hook, **_: hook.model.read())
    monkeypatch.setattr(reconciler, "POLL_INTERVAL_S", 0.01)
    return service


def test_a_canary_that_is_never_noted_is_removed_once_it_was_waited_for(canary: UnnotedCanary) -> None:
    """A rollback first waits for the controller, with the users safe; in half of its time it removes the canary."""
    told: list[Reconciliation] = []
    reached = reconcile(cast(KServeHook, canary), RollBack(V2, V3), timeout_s=1.0, on_progress=told.append)
    assert reached.observed is not None
    assert (reached.observed.storage_uri, reached.observed.canary_percent) == (V2, None)
    reasons = [one.action.reason for one in told]
    assert reasons.index("Waiting for the controller to take note of percent 0.") < len(reasons) - 2


def test_without_that_patience_it_would_wait_for_ever(
    canary: UnnotedCanary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The domain alone never removes it: it knows no time."""
    monkeypatch.setattr(rules, "replace", lambda goal, **_: goal)
    with pytest.raises(TimedOutError):
        reconcile(cast(KServeHook, canary), RollBack(V2, V3), timeout_s=0.2)
    assert canary.model.read().canary_percent == 0
    assert "Wait" in type(next_action(RollBack(V2, V3), canary.model.read())).__name__
