"""What is left of a release that ended before its time."""

from __future__ import annotations

from include.model_release.rollout.observation import Observed
from tests.support.e2e.running_sandbox import Ended


def rolled_back_by(ended: Ended) -> str:
    """Return who, by the record, began the rollback."""
    (begun,) = [event for event in ended.events if event.kind == "rollback_started"]
    return str(begun.data.by)


def assert_on_stable(service: Observed, ended: Ended) -> None:
    """Assert that the InferenceService is whole again, with all traffic on the version that was stable before."""
    assert service.storage_uri == ended.state.stable_storage_uri
    assert service.canary_percent is None
    assert service.alone(service.latest_ready)
    assert service.latest_rolledout == service.latest_ready
