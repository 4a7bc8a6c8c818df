"""Where the release that is under way waits for a person."""

from __future__ import annotations

from slipway_core.acts.requests import Question
from slipway_core.read_model.documents import OpenRelease

_TASKS = {
    ("canary", False): ("model_release", "rollout.approve"),
    ("promotion", False): ("model_release", "rollout.approve_promotion"),
    ("promotion", True): ("model_rollback", "approve"),
}


def question_of(release: OpenRelease | None) -> Question | None:
    """Return the question that a release waits for; None where it waits for nobody."""
    if release is None:
        return None
    found = _TASKS.get((release.waits_for_approval, release.is_rollback))
    return None if found is None else Question(found[0], release.release_id, found[1])
