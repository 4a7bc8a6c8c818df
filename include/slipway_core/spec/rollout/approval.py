"""The release file's `rollout.approval`: where a person must agree."""

from __future__ import annotations

from slipway_core.spec.parts import SpecPart


class Approval(SpecPart):
    """Where a person must agree."""

    before_canary: bool = False
    before_promotion: bool = False
    """After the last step has passed; the canary goes on being watched while the person thinks."""
    by_other: bool = False
    """The person who agrees must be another one than who started the run; two must, where no person has started it."""
