"""Back to the good version, in whichever dialect the InferenceService speaks.

`knative/back.py` and `standard/back.py` say how, and why in these phases: SHIELD (users off the bad
revision), RESTORE (the good version named again), BOOT (it comes up) and RELEASE_TRAFFIC (it gets everyone).
"""

from __future__ import annotations

from slipway_core.rollout.actions import (
    BOOT,
    RELEASE_TRAFFIC,
    RESTORE,
    SHIELD,
    Action,
    Impossible,
    RollBack,
)
from slipway_core.rollout.dialects.knative import back as knative
from slipway_core.rollout.dialects.standard import back as standard
from slipway_core.rollout.observation import Observed

__all__ = ["BOOT", "RELEASE_TRAFFIC", "RESTORE", "SHIELD", "roll_back"]


def roll_back(goal: RollBack, observed: Observed) -> Action:
    """Return the next action on the way back to `goal.stable_uri`."""
    if not goal.stable_uri:
        return Impossible("There is no good version to go back to; a first version can only be withdrawn.")
    if observed.standard is not None:
        return standard.roll_back(goal, observed, observed.standard)
    return knative.roll_back(goal, observed)
