"""What goes wrong in one release of a fleet, drawn from its seed alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

STEPS = ("begin", "prepare", "verify", "commit", "drain")
"""Of a release, in order. A fault happens some milliseconds after a step has begun; to unload is part of `drain`."""

OF_A_SERVER = ("server_killed", "server_stalled", "out_of_memory", "wrong_config", "store_gone")
OF_THE_CONTROLLER = ("controller_killed", "controller_stopped", "controller_store_gone")
KINDS = (*OF_A_SERVER, *OF_THE_CONTROLLER)

WRONG_CONFIGS = ("another batch size", "cannot be loaded", "another model")
"""What is wrong in a server's repository."""

UNREACHABLE_S = 4.0
"""For how long a server may give no answer, in these runs."""

OnUnreachable = Literal["fail", "fence"]
POLICIES: tuple[OnUnreachable, ...] = ("fail", "fence")

_LATEST_MS = 150.0
# Faults that a controller waits for, and faults that it does not.
_SHORT_S, _LONG_S = (0.5, 3.0), (5.0, 9.0)


@dataclass(frozen=True)
class Plan:
    """One run.

    :param server: the place of the server it happens to, from 0; that of the controller's faults is not used.
    :param later_ms: how long after the step has begun.
    :param seconds: how long the fault lasts, before it is mended: the killed is started again, the stalled goes on.
    :param wrong: one of `WRONG_CONFIGS`, of the kind `wrong_config`.
    :param on_unreachable: the policy: whether a server that does not answer fails the whole, or is fenced.
    """

    seed: int
    kind: str
    step: str
    server: int
    later_ms: float
    seconds: float
    wrong: str = ""
    on_unreachable: OnUnreachable = "fail"

    def __str__(self) -> str:
        """In words."""
        where = f"server {self.server}" if self.kind in OF_A_SERVER else "the controller"
        what = f"{self.kind} ({self.wrong})" if self.wrong else self.kind
        when = f"{self.later_ms:.0f} ms into {self.step}, for {self.seconds:.1f} s"
        return f"{what} at {where}, {when}; who does not answer: {self.on_unreachable}"


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
        seconds=chance.choice((chance.uniform(*_SHORT_S), chance.uniform(*_LONG_S))),
        wrong=chance.choice(WRONG_CONFIGS) if kind == "wrong_config" else "",
        on_unreachable=chance.choice(POLICIES),
    )
