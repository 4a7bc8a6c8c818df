"""The release file's `rollout.approval`: where a person must agree."""

from __future__ import annotations

from slipway_core.spec.parts import SpecPart


class Approval(SpecPart):
    """Where a person must agree."""

    before_canary: bool = False
    before_promotion: bool = False
    """After the last step has passed; the canary stays watched until the person answers."""
    by_other: bool = False
    """Someone other than the person who started the run must approve; two people if no person started it."""
