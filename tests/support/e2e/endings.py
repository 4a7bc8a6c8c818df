"""How a release ended, and what is left of one that ended before its time."""

from __future__ import annotations

from slipway_core.record.state import ReleaseState
from slipway_core.rollout.observation import Observed
from tests.support.e2e.running_sandbox import Ended


def assert_ended(
    ended: Ended, outcome: str, *, run: str | None = None, refused_by: str | None = None
) -> None:
    """Assert how a release ended; where it ended otherwise, say why by its record.

    :param run: the state of its run, where that matters too.
    :param refused_by: the gate that must have refused it; None: any, or none.
    """
    why = f"the run {ended.run.run_id} ended {ended.run.state}; {_told(ended.state)}"
    assert ended.state.outcome == outcome, why
    assert run in (None, ended.run.state), why
    assert refused_by in (None, ended.state.refused_by), why


def _told(state: ReleaseState) -> str:
    """Return why a release ended as it did: the gate, its sentence, and each stage that did not pass."""
    summary = f"{state.model} {state.version} is {state.outcome}"
    if state.refused_by:
        summary += f" by {state.refused_by}"
    summary += f", because: {state.reason or 'the record gives no reason'}"
    lines = [
        f"  stage {stage.name} {stage.outcome}: {stage.reason or 'no reason is given'}"
        for stage in state.stages
        if stage.outcome not in ("passed", "reused")
    ]
    return "\n".join([summary, *lines])


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
