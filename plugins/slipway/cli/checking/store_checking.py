"""What the object store keeps of that which releases rely on, asked by the same questions as at admission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slipway.cli.checking.verifying import opened_bucket

if TYPE_CHECKING:
    from slipway.cli.invocation import Invocation
    from slipway.hooks.s3_guarantees import Guarantee


@dataclass(frozen=True)
class CheckedStore:
    """What a bucket's server was asked, and what it did."""

    bucket: str
    guarantees: Sequence[Guarantee]

    @property
    def broken(self) -> list[Guarantee]:
        """What a release relies on and the server does not keep."""
        return [one for one in self.guarantees if one.is_needed and not one.is_kept]

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        asked = [
            {
                "asked": one.what,
                "expected": one.expected,
                "found": one.found,
                "is_kept": one.is_kept,
                "is_needed": one.is_needed,
            }
            for one in self.guarantees
        ]
        return {"bucket": self.bucket, "is_fit": not self.broken, "asked": asked}

    def lines(self) -> list[str]:
        """Return it in lines."""
        return [_line(one) for one in self.guarantees]


def check_store(invocation: Invocation, bucket: str) -> CheckedStore:
    """Ask a bucket's server; it writes objects below `operations/store-probe/` and removes them.

    :param bucket: "": that of the settings, or of the variable SLIPWAY_BUCKET.
    """
    with opened_bucket(invocation, bucket, "store-check") as store:
        from slipway.hooks.s3_guarantees import ask_guarantees

        return CheckedStore(store.bucket, ask_guarantees(store, at_once=True))


def _line(one: Guarantee) -> str:
    if one.is_kept:
        return f"kept  {one.what}"
    sign = "NOT KEPT" if one.is_needed else "without"
    rest = "" if one.is_needed else f"; {one.otherwise}"
    return f"{sign}  {one.what}: expected {one.expected}, found {one.found}{rest}"
