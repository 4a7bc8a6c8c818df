"""How a release ends, by what its record says when its tasks are over."""

from __future__ import annotations

from dataclasses import replace

from include.model_release.record.state import ReleaseState


def stopped_before(what: str, stop_reason: str) -> str:
    """Return that a run was stopped before something, and why.

    :param stop_reason: in the words of the person who stopped it; "": not known.
    """
    return f"the run was stopped before {what}" + (f": {stop_reason}" if stop_reason else "")


def concluded(state: ReleaseState, *, stop_reason: str = "") -> ReleaseState:
    """Return the state with its outcome, the stage that refused and the reason.

    What became of the traffic outweighs what became of the tasks.

    :param stop_reason: why a person has stopped the run, if one has.
    """
    if state.outcome != "open":
        return state
    if state.refused_by is not None:
        return replace(state, outcome="refused")
    failed = next((stage for stage in state.stages if stage.outcome in ("failed", "inconclusive")), None)
    if failed is not None:
        return replace(state, outcome="failed", refused_by=None, reason=failed.reason)
    reason = stopped_before("the release had ended", stop_reason)
    return replace(state, outcome="cancelled", refused_by=None, reason=reason)
