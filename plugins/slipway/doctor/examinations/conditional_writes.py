"""Conditional writes: what locks and records rely on, tried with objects of its own, which are removed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation, Permission
from slipway.hooks.s3_guarantees import ask_guarantees
from slipway_core.doctor.line import Line, Status
from slipway_core.operations.layout import PROBE_PREFIX
from slipway_core.written_numbers import counted


@EXAMINATIONS.register
class ConditionalWritesExamination(Examination):
    """Asks what admission asks, and whether of many creators at once one wins."""

    name: ClassVar[str] = "conditional_writes"
    place: ClassVar[int] = 40
    why: ClassVar[str] = "without them two releases hold one model's lock, and neither is told"
    needs: ClassVar[Permission | None] = Permission.WRITE

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for all that is kept, and one for each guarantee that is not."""
        store = installation.store()
        found = ask_guarantees(store, at_once=True)
        kept = [one for one in found if one.is_kept]
        if kept:
            tested = f"{len(kept)} of {counted(len(found), 'test')} passed"
            yield self.ok("conditions, listings, digests", tested)
        for one in found:
            if one.is_kept:
                continue
            if one.is_needed:
                yield self.failed(
                    one.what,
                    one.found,
                    expected=one.expected,
                    remedy=f"use a store that keeps conditions: slipway store-check --bucket {store.bucket}",
                )
            else:
                yield self.line(one.what, Status.OK, f"{one.found}; {one.otherwise}", expected=one.expected)
        left = store.entries(PROBE_PREFIX, most=100)
        if left:
            yield self.warning(
                f"objects below {PROBE_PREFIX}",
                f"{counted(len(left), 'object')} left, perhaps of another test that runs",
                why="they are removed at the end of each test",
                remedy=f"aws s3 rm --recursive s3://{store.bucket}/{PROBE_PREFIX}",
            )
