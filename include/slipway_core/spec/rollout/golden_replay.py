"""The release file's `rollout.golden_replay`: golden requests, replayed where users send too little to judge by."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from slipway_core.spec.parts import SpecPart


class GoldenReplaySettings(SpecPart):
    """How golden requests are replayed with `on_inconclusive: golden_replay`."""

    requests_per_s: Annotated[float, Field(gt=0, le=200)] = 10.0
    """In total; half go to the candidate's own URL, half to stable's."""
    timeout_s: Annotated[float, Field(gt=0, le=10)] = 5.0
    """A request that is not answered in this time is an error. A model for which that is too short is asked one by one,
    and waited for five times what stable takes for an answer, 60 s at most.
    """
    max_request_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = 1024 * 1024
    """Golden rows that make a larger request are not replayed."""
    metrics_see_users_only: bool = False
    """You have seen to it that the queries of `metrics` leave out what goes to the revisions' own URLs; docs/canary.md
    says how. Needed with `source: prometheus`."""
