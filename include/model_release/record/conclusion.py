"""How a release ends, by what its record says when its tasks are over."""

from __future__ import annotations

from dataclasses import replace

from include.model_release.record.state import ReleaseState


def concluded(state: ReleaseState) -> ReleaseState:
    """Return the state with its outcome, the stage that refused and the reason.

    What became of the traffic outweighs what became of the tasks.
    """
    if state.outcome != "open":
        return state
    if state.refused_by is not None:
        return replace(state, outcome="refused")
    failed = next((stage for stage in state.stages if stage.outcome in ("failed", "inconclusive")), None)
    if failed is not None:
        return replace(state, outcome="failed", refused_by=None, reason=failed.reason)
    reason = "the run was stopped before the release had ended"
    return replace(state, outcome="cancelled", refused_by=None, reason=reason)
