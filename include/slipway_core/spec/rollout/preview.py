"""The release file's `rollout.preview`: the candidate before users meet it."""

from __future__ import annotations

from slipway_core.spec.parts import SpecPart


class Preview(SpecPart):
    """Brings the candidate up at 0 percent first, at its own address where people and tests can try it.

    It has nothing to set: `preview: {}` turns it on. Together with `approval.before_canary` a person can try the
    candidate before agreeing.
    """
