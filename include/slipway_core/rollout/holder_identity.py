"""Who holds a canary's lease: a release run, the stage of it that drives now, and the try of that stage's task.

A release has one holder at a time, but several tasks that follow each other, and each may be tried again. A task whose
worker was taken for dead may still be alive: it must not drive beside its next try. So a later stage takes over from an
earlier one, a later try from an earlier one, never the other way round. A trigger that is made again on another
triggerer is the same try, and so the same holder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

Stage = Literal["canary", "hold", "promotion"]
STAGES: tuple[Stage, ...] = get_args(Stage)

_TEXT = re.compile(rf"(?P<release>.*) (?P<stage>{'|'.join(STAGES)}) try (?P<attempt>[0-9]{{1,6}})", re.DOTALL)


@dataclass(frozen=True)
class HolderIdentity:
    """A task that drives a canary; `attempt` is Airflow's number of the try, from 1.

    With `stage` None it is the release as such, which drives nothing: a holder that no text named better.
    """

    release_id: str
    stage: Stage | None = None
    attempt: int = 0

    def __str__(self) -> str:
        """Return what a Lease holds as `holderIdentity`."""
        return self.release_id if self.stage is None else f"{self.release_id} {self.stage} try {self.attempt}"

    @classmethod
    def parse(cls, text: str) -> HolderIdentity:
        """Read a `holderIdentity`; a text of another form is a release's id."""
        found = _TEXT.fullmatch(text)
        if found is None:
            return cls(text)
        stage = next(one for one in STAGES if one == found["stage"])
        return cls(found["release"], stage, int(found["attempt"]))

    def may_take_over(self, other: HolderIdentity) -> bool:
        """Return whether this one is the same holder, or one that comes after it in the same release."""
        return self.release_id == other.release_id and self._order >= other._order

    @property
    def _order(self) -> tuple[int, int]:
        return (-1 if self.stage is None else STAGES.index(self.stage), self.attempt)
