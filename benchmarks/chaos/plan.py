"""What goes wrong in one run, drawn from its seed alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

TIMED = (
    "task_killed",
    "task_lost",
    "guard_killed",
    "guard_and_task_lost",
    "cluster_killed",
    "stable_killed",
    "candidate_killed",
    "router_killed",
    "metrics_away",
    "store_away",
)
"""At an instant after the release has begun; a task that is lost is killed and does not come back."""

AT_A_WRITE = (
    "killed_before_write",
    "killed_after_write",
    "lost_after_write",
    "write_refused",
    "write_delayed",
    "answer_lost",
    "write_comes_late",
)
"""At one of the task's writes to the cluster; `write_comes_late` reaches it when the task is dead already."""

AT_A_RECORD = "killed_at_record"
"""Some milliseconds after the task has begun to write an event of the record: before, during or after the writing."""

KINDS = (*TIMED, *AT_A_WRITE, AT_A_RECORD, "clock_skewed")

LOSSES = frozenset({"task_lost", "guard_and_task_lost"})

LEASES, SERVICES, RECORDS = "leases", "inferenceservices", "records"

Dialect = Literal["Knative", "Standard"]
DIALECTS: tuple[Dialect, ...] = ("Knative", "Standard")

# A release takes about ten seconds here.
_LATEST_S = 7.0
_SECOND_FAULT = 0.4
_BAD = 0.6
# A lost task's lease lasts 15 s: between these the guard ends its canary.
_GUARD_AT_WORK_S = (12.0, 17.0)


@dataclass(frozen=True)
class Fault:
    """One fault. `at_s` after the release's begin, or at the `nth` write (from 1) to `resource`; `seconds` is how
    long it lasts, or by how much a clock is wrong; `later_s` is how much later the guard dies than its task.
    """

    kind: str
    at_s: float = 0.0
    resource: str = ""
    nth: int = 0
    seconds: float = 0.0
    later_s: float = 0.0

    def __str__(self) -> str:
        """In words."""
        when = f" at write {self.nth} to {self.resource}" if self.nth else f" after {self.at_s:.2f} s"
        later = f", the guard {self.later_s:.1f} s later" if self.later_s else ""
        return f"{self.kind}{when if self.kind != 'clock_skewed' else ''} ({self.seconds:+.1f} s{later})"


@dataclass(frozen=True)
class Plan:
    """One run: its seed, the candidate's share of failing requests, the faults, after how long a killed task is run
    again, and in which of KServe's dialects the traffic is split.
    """

    seed: int
    error_percent: float
    faults: tuple[Fault, ...]
    back_after_s: float
    dialect: Dialect = "Knative"


def draw(seed: int) -> Plan:
    """The run of a seed. Of as many consecutive seeds as there are kinds, each begins with another kind."""
    chance = random.Random(seed)
    kinds = [KINDS[seed % len(KINDS)]]
    if chance.random() < _SECOND_FAULT:
        kinds.append(chance.choice([kind for kind in KINDS if kind not in kinds]))
    return Plan(
        seed=seed,
        error_percent=round(chance.uniform(20, 100), 1) if chance.random() < _BAD else 0.0,
        faults=tuple(_fault(kind, chance) for kind in kinds),
        back_after_s=chance.uniform(0.1, 2.0),
        dialect=chance.choice(DIALECTS),
    )


def _fault(kind: str, chance: random.Random) -> Fault:
    if kind == "clock_skewed":
        return Fault(kind, seconds=chance.choice((-1, 1)) * chance.uniform(20, 600))
    if kind in AT_A_WRITE:
        resource = chance.choice((SERVICES, SERVICES, LEASES))
        return Fault(kind, resource=resource, nth=chance.randint(1, 4), seconds=chance.uniform(0.5, 4.0))
    if kind == AT_A_RECORD:
        return Fault(kind, resource=RECORDS, nth=chance.randint(1, 20), seconds=chance.uniform(0.0, 0.1))
    longest = {"metrics_away": 20.0, "store_away": 10.0}.get(kind, 2.0)
    later_s = (
        chance.choice((0.0, chance.uniform(*_GUARD_AT_WORK_S))) if kind == "guard_and_task_lost" else 0.0
    )
    at_s, seconds = chance.uniform(0.2, _LATEST_S), chance.uniform(0.3, longest)
    return Fault(kind, at_s=at_s, seconds=seconds, later_s=later_s)
