"""What goes wrong in one release of a fleet, drawn from its seed alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

STEPS = ("prepare", "verify", "commit", "drain", "unload")
"""Of a release, in order. A fault happens when a step has begun, some milliseconds later."""

OF_A_SERVER = ("server_killed", "server_stalled", "out_of_memory", "wrong_config", "store_gone")
OF_THE_CONTROLLER = ("controller_killed", "controller_stopped", "controller_store_gone")
KINDS = (*OF_A_SERVER, *OF_THE_CONTROLLER)

WRONG_CONFIGS = ("another batch size", "cannot be loaded")
"""What is wrong in a repository: it loads, and differs from what the others have; or it does not load."""

_LATEST_MS = 150.0


@dataclass(frozen=True)
class Plan:
    """One run.

    :param server: the place of the server it happens to, from 0; that of the controller's faults is not used.
    :param later_ms: how long after the step has begun.
    :param seconds: how long the fault lasts, before it is mended: the killed is started again, the stalled goes on.
    :param wrong: one of `WRONG_CONFIGS`, of the kind `wrong_config`.
    """

    seed: int
    kind: str
    step: str
    server: int
    later_ms: float
    seconds: float
    wrong: str = ""

    def __str__(self) -> str:
        """In words."""
        where = f"server {self.server}" if self.kind in OF_A_SERVER else "the controller"
        what = f"{self.kind} ({self.wrong})" if self.wrong else self.kind
        return f"{what} at {where}, {self.later_ms:.0f} ms into {self.step}, for {self.seconds:.1f} s"


def draw(seed: int, servers: int) -> Plan:
    """Return the run of a seed. Consecutive seeds go through all kinds and steps before one comes again."""
    chance = random.Random(seed)
    cell = seed % (len(KINDS) * len(STEPS))
    kind, step = KINDS[cell % len(KINDS)], STEPS[cell // len(KINDS)]
    return Plan(
        seed=seed,
        kind=kind,
        step=step,
        server=chance.randrange(servers),
        later_ms=chance.uniform(0.0, _LATEST_MS),
        seconds=chance.uniform(1.0, 4.0),
        wrong=chance.choice(WRONG_CONFIGS) if kind == "wrong_config" else "",
    )
