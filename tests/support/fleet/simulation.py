"""A fleet without servers: what each has, and what an act does there, with failures where a test asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slipway_core.fleet.plan import FleetRun, FleetStep, Phase, ServerView, next_step
from slipway_core.fleet.policy import FleetPolicy

OLD, NEW = 6, 7
TICK_S = 1.0


@dataclass
class SimulatedServer:
    """One server: what it serves and has loaded, and what is the matter with it."""

    serving: int | None = OLD
    loaded: set[int] = field(default_factory=lambda: {OLD})
    verified: bool = False
    away_since: float | None = None
    refusal: str = ""
    is_wrong: bool = False

    def view(self, now: float) -> ServerView:
        """Return what is seen of it."""
        if self.away_since is not None:
            return ServerView(away_s=now - self.away_since)
        return ServerView(
            serving=self.serving,
            is_prepared=NEW in self.loaded,
            is_verified=self.verified and NEW in self.loaded,
            has_old=bool(self.loaded - {NEW}),
            has_new=NEW in self.loaded,
            refusal=self.refusal,
        )


class SimulatedFleet:
    """Carries out a plan step by step.

    :param disturb: called before each step with the number of steps so far; it may change the servers.
    """

    def __init__(
        self, servers: int, policy: FleetPolicy, disturb: Callable[[SimulatedFleet, int], None]
    ) -> None:
        self.servers = {f"s{number}": SimulatedServer() for number in range(servers)}
        self.policy = policy
        self.phase: Phase = "prepare"
        self.before: dict[str, int | None] = {}
        self.fenced: dict[str, SimulatedServer] = {}
        self.now = 0.0
        self.steps: list[FleetStep] = []
        self._disturb = disturb

    def run(self, most: int = 300) -> FleetStep:
        """Go on until the plan ends; return its last step."""
        for number in range(most):
            self._disturb(self, number)
            self._note_before()
            views = {name: one.view(self.now) for name, one in self.servers.items()}
            step = next_step(FleetRun(self.phase, NEW, self.before), views, self.policy)
            self.steps.append(step)
            if step.act == "finish":
                return step
            self._carry_out(step)
        raise AssertionError(f"no end: {self.steps[-10:]}")

    def kill_controller(self) -> None:
        """Forget what only the process knew: the phase and what servers had before are written down."""
        for one in self.servers.values():
            one.verified, one.refusal = False, ""
            if one.away_since is not None:
                one.away_since = self.now

    def _note_before(self) -> None:
        for name, one in self.servers.items():
            if one.away_since is None:
                self.before.setdefault(name, one.serving)

    def _carry_out(self, step: FleetStep) -> None:
        self.now += TICK_S
        if step.act == "enter":
            assert step.phase is not None
            if step.phase == "commit":  # the first user meets the version after this
                assert all(one.verified and one.away_since is None for one in self.servers.values())
            self.phase = step.phase
            if step.phase == "back":
                for one in self.servers.values():
                    one.refusal = ""
        for name in step.servers:
            self._act(step, name)

    def _act(self, step: FleetStep, name: str) -> None:
        one = self.servers[name]
        if step.act == "fence":
            self.fenced[name] = self.servers.pop(name)
        elif one.away_since is not None:
            return
        elif step.act == "prepare":
            one.loaded.add(NEW)
        elif step.act == "verify":
            one.verified, one.refusal = not one.is_wrong, "another configuration" if one.is_wrong else ""
        elif step.act == "commit":
            assert one.verified
            one.serving = NEW
        elif step.act == "restore":
            one.serving = self.before[name]
        elif step.act == "drain":
            assert one.serving == NEW
            one.loaded &= {NEW}
        elif step.act == "clean":
            assert one.serving != NEW
            one.loaded.discard(NEW)
