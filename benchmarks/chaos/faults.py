"""The timed faults: what is killed or shut, when it is mended, and what that excuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from benchmarks.chaos.evidence import GUARD, Outage
from benchmarks.chaos.excuses import CLUSTER, ROUTER, Excuse
from benchmarks.chaos.gates import Gate
from benchmarks.chaos.plan import LOSSES, Fault
from benchmarks.chaos.run import ChaosRun, Due
from benchmarks.chaos.served import Served
from slipway_core.errors import SlipwayError
from slipway_sandbox.lab.serving_stack import Lab

_PARTS = {"cluster_killed": CLUSTER, "router_killed": ROUTER, "guard_killed": GUARD}
_DEATH_LIMIT_S = 10.0
_POLL_S = 0.01
# On a busy machine a server may not be there for a moment, or not any more.
_AWAY = (SlipwayError, OSError)


@dataclass
class Faults:
    """Does the timed faults of one run.

    :param stable: the revision that serves when the run begins.
    :param kill_task: kills the release's process, and is given whether it stays dead.
    :param dead: the parts of the lab that are dead now.
    """

    lab: Lab
    metrics: Gate
    store: Gate
    kill_task: Callable[[bool], None]
    served: Served
    stable: str
    run: ChaosRun
    dead: set[str] = field(default_factory=set)

    def inject(self, fault: Fault) -> None:
        """Does a fault now; what it breaks is mended by something that is due later."""
        match fault.kind:
            case "task_killed" | "task_lost" | "guard_and_task_lost":
                self.run.happen(fault)
                self.kill_task(fault.kind in LOSSES)
                if fault.kind == "guard_and_task_lost":
                    at = time.time() + fault.later_s
                    self.run.due.append(Due(at, lambda: self._kill(GUARD, fault.seconds)))
            case "metrics_away" | "store_away":
                self.run.happen(fault)
                gate = self.metrics if fault.kind == "metrics_away" else self.store
                gate.shut()
                self.run.due.append(Due(time.time() + fault.seconds, gate.open, mends=True))
            case "stable_killed" | "candidate_killed":
                self._kill_triton(fault)
            case _:
                self.run.happen(fault)
                self._kill(_PARTS[fault.kind], fault.seconds)

    def _kill(self, part: str, for_s: float) -> None:
        if part in self.dead:
            return  # another fault has been quicker
        self.dead.add(part)
        killed_at, servers = time.time(), self.lab.tritons() if part == CLUSTER else []
        self.lab.kill(part)
        _kill_all(servers)
        if part in (ROUTER, CLUSTER):
            self.run.excuses.append(Excuse(killed_at, time.time(), part))
        self.run.tell(f"the {part} is dead")
        self.run.due.append(Due(killed_at + for_s, lambda: self._restart(part, killed_at), mends=True))

    def _restart(self, part: str, killed_at: float) -> None:
        self.lab.start(part)
        self.dead.remove(part)
        self.run.tell(f"the {part} is back")
        if part in (CLUSTER, GUARD):
            self.run.outages.append(Outage(killed_at, time.time(), part))

    def _kill_triton(self, fault: Fault) -> None:
        try:
            revision = self.stable
            if fault.kind == "candidate_killed":
                revision = self.served.look().latest_created
                if revision == self.stable:
                    return
            server = self.lab.triton_of(revision)
        except _AWAY:
            return
        self.run.happen(fault)
        killed_at = time.time()
        _kill_all([server])
        self.run.excuses.append(Excuse(killed_at, time.time(), revision))


def _kill_all(processes: Sequence[psutil.Process]) -> None:
    """Kills, and returns when none of them answers any more."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    limit = time.monotonic() + _DEATH_LIMIT_S
    while any(_lives(one) for one in processes) and time.monotonic() < limit:
        time.sleep(_POLL_S)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
