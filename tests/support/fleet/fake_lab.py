"""A fleet without servers: it answers with whatever versions a test says, and its controller is a list of steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from benchmarks.fleet.answers import FleetAnswer
from benchmarks.fleet.controller import StepTaken

_LOOKS = 50

Act = Callable[["FakeLab"], None]


@dataclass
class FakeServer:
    """A server that is done to, and remembers what."""

    name: str
    version: int = 1
    is_alive: bool = True
    done: list[str] = field(default_factory=list)

    def loaded(self) -> Mapping[str, list[int]]:
        """Return what it serves."""
        return {"digits": [self.version]} if self.version else {}

    def kill(self) -> None:
        """End."""
        self.is_alive, self.version = False, 0
        self.done.append("kill")

    def start(self) -> None:
        """Come back, empty."""
        self.is_alive = True
        self.done.append("start")

    def wait_ready(self) -> None:
        """Is ready."""

    def stall(self) -> None:
        """Hang."""
        self.done.append("stall")

    def resume(self) -> None:
        """Go on."""
        self.done.append("resume")

    def log_end(self) -> str:
        """Return no log."""
        return "exit code -11"


class FakeController:
    """Takes one step at each look; ends after the last, killed or not.

    :param steps: what it decides on, and what that does to the fleet.
    """

    def __init__(self, lab: FakeLab, steps: Sequence[tuple[str, Act]], outcome: Mapping[str, Any]) -> None:
        self._lab, self._left, self._outcome = lab, list(steps), outcome
        self.began = time.time()
        self.was_killed = False

    @property
    def has_ended(self) -> bool:
        """Tell whether nothing is left to do."""
        return self.was_killed or not self._left

    @property
    def outcome(self) -> Mapping[str, Any] | None:
        """Return what it said; nothing where it was killed in the middle."""
        return None if self.was_killed and self._left else self._outcome

    def new_steps(self) -> list[StepTaken]:
        """Take the next step."""
        if self.has_ended:
            return []
        act, do = self._left.pop(0)
        do(self._lab)
        return [StepTaken(time.time(), act, ())]

    def kill(self) -> None:
        """Die."""
        self.was_killed = True

    def log_end(self) -> str:
        """Return no log."""
        return "Traceback"


@dataclass
class FakeLab:
    """A fleet of two; `plans` are what its controllers do, one after the other."""

    plans: list[tuple[Sequence[tuple[str, Act]], Mapping[str, Any]]]
    servers: list[FakeServer] = field(default_factory=lambda: [FakeServer("a"), FakeServer("b")])
    version: int = 1
    released: list[tuple[int, str]] = field(default_factory=list)
    controllers: list[FakeController] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Have gates that nobody looks at."""
        gate = SimpleNamespace(shut=lambda: None, open=lambda: None, show=lambda rewrite: None)
        self.gates, self.own_gate = {one.name: gate for one in self.servers}, gate

    def publish(self) -> int:
        """Return the next version."""
        return 2

    def release(self, version: int, run_id: str, name: str, *policy: Any) -> FakeController:
        """Begin what the next plan says."""
        self.released.append((version, run_id))
        steps, outcome = self.plans.pop(0)
        self.controllers.append(FakeController(self, steps, outcome))
        return self.controllers[-1]

    def new_answers(self) -> list[FleetAnswer]:
        """Return an answer of each server over each protocol, of now."""
        now = time.time()
        return [
            FleetAnswer(one.name, protocol, now, now, one.version or None, one.version or None, _error(one))
            for one in self.servers
            for protocol in ("http", "grpc")
        ]

    def wait(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Ask some times whether a condition holds; meanwhile the controller goes on."""
        for _ in range(_LOOKS):
            if condition():
                return True
            self.controllers[-1].new_steps()
        return False


def _error(server: FakeServer) -> str | None:
    return None if server.version else "HTTP 404"


def nothing(lab: FakeLab) -> None:
    """Change nothing."""


def all_to(version: int) -> Act:
    """Give all servers that live a version."""

    def change(lab: FakeLab) -> None:
        for one in lab.servers:
            one.version = version if one.is_alive else 0

    return change


def said(outcome: str, **servers: str) -> Mapping[str, Any]:
    """Return what a controller says; servers are as it ended, unless another state is given."""
    states = {name: {"state": state, "reason": "no answer"} for name, state in servers.items()}
    return {"outcome": outcome, "reasons": [], "prepare_s": 1.0, "commit_ms": 2.0, "servers": states}
