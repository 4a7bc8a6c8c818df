"""Where the release that is under way waits for a person."""

from __future__ import annotations

from slipway.workflows import (
    APPROVE_CANARY_TASK,
    APPROVE_PROMOTION_TASK,
    APPROVE_ROLLBACK_TASK,
    MODEL_RELEASE,
    MODEL_ROLLBACK,
)
from slipway_core.acts.requests import Question
from slipway_core.read_model.documents import OpenRelease

_TASKS = {
    ("canary", False): (MODEL_RELEASE, APPROVE_CANARY_TASK),
    ("promotion", False): (MODEL_RELEASE, APPROVE_PROMOTION_TASK),
    ("promotion", True): (MODEL_ROLLBACK, APPROVE_ROLLBACK_TASK),
}


def question_of(release: OpenRelease | None) -> Question | None:
    """Return the question that a release waits for; None where it waits for nobody."""
    if release is None:
        return None
    found = _TASKS.get((release.waits_for_approval, release.is_rollback))
    return None if found is None else Question(found[0], release.release_id, found[1])
