"""How a release ends, by what its record says when its tasks are over."""

from __future__ import annotations

from dataclasses import replace

from slipway_core.record.state import ReleaseState

CANCELLATION = "cancellation"
"""Who took the users back where the run was stopped."""


def concluded(state: ReleaseState, *, stop_reason: str = "") -> ReleaseState:
    """Return the state with its outcome, the stage that refused and the reason.

    What became of the traffic outweighs what became of the tasks.

    :param stop_reason: why a person stopped the run, in that person's words; "": no reason was given. It is added
        here, at the end, and not during the rollback, which waits for nothing but the cluster.
    """
    if state.outcome == "rolled_back" and state.rolled_back_by == CANCELLATION:
        return replace(state, reason=_with(state.reason, stop_reason))
    if state.outcome != "open":
        return state
    if state.refused_by is not None:
        return replace(state, outcome="refused")
    failed = next((stage for stage in state.stages if stage.outcome in ("failed", "inconclusive")), None)
    if failed is not None:
        return replace(state, outcome="failed", refused_by=None, reason=failed.reason)
    reason = _with("the run was stopped before the release had ended", stop_reason)
    return replace(state, outcome="cancelled", refused_by=None, reason=reason)


def concluded_without_run(state: ReleaseState) -> ReleaseState:
    """Return the state of a release whose run Airflow no longer has, as it ends: what is not known, it does not claim.

    A version that users may have met has failed, whatever its gates said: nobody has watched it since.
    """
    ended = concluded(state)
    if ended.outcome != "cancelled":
        return ended
    reason = "Airflow no longer has the run of this release, so it could not continue"
    if state.exposed:
        reason += (
            ". Users may have met this version: the guard takes them back to the stable version when the canary's "
            f"lease runs out. To restore the InferenceService, run: slipway rollback {state.model}"
        )
    return replace(ended, outcome="failed", reason=reason)


def _with(reason: str | None, stop_reason: str) -> str | None:
    return f"{reason}: {stop_reason}" if reason and stop_reason else reason
