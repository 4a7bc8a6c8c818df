"""What a plan says is done to a server, to the controller or to their way to S3, and how it is mended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.fleet.controller import Controller
from benchmarks.fleet.evidence import Excuse
from benchmarks.fleet.gates import StoreGate
from benchmarks.fleet.model import rewrite_wrong
from benchmarks.fleet.plan import OF_THE_CONTROLLER, Plan
from benchmarks.fleet.servers import FleetServer


@dataclass
class Fault:
    """The one fault of a run.

    :param gates: the way to S3 of each server, by its name.
    :param own_gate: that of the controller.
    :param tell: hears what happens.
    :param crashed: a stalled server has not survived that.
    :param down_since: since when (unix seconds) a good answer means that a killed or crashed server is back.
    """

    plan: Plan
    server: FleetServer
    gates: Mapping[str, StoreGate]
    own_gate: StoreGate
    tell: Callable[[str], None]
    happened: bool = False
    mended: bool = False
    begun_at: float = 0.0
    mended_at: float = 0.0
    came_back_empty: bool = False
    crashed: bool = False
    down_since: float = 0.0

    @property
    def is_due_to_mend(self) -> bool:
        """Tell whether it has lasted long enough."""
        return self.happened and not self.mended and time.time() >= self.begun_at + self.plan.seconds

    def inject(self, controller: Controller) -> None:
        """Do it now."""
        self.happened, self.begun_at = True, time.time()
        self.down_since = self.begun_at
        self.tell(f"FAULT {self.plan}")
        gate = self.gates[self.server.name]
        match self.plan.kind:
            case "server_killed":
                self.server.kill()
            case "server_stalled":
                self.server.stall()
            case "out_of_memory":
                self.server.limit_memory()
            case "wrong_config":
                gate.show(lambda path, content: rewrite_wrong(self.plan.wrong, path, content))
            case "store_gone":
                gate.shut()
            case "controller_killed":
                controller.kill()
            case "controller_stopped":
                controller.stop()
            case "controller_store_gone":
                self.own_gate.shut()

    def mend(self, controller: Controller) -> None:
        """Undo it. May be called when nothing has happened, or when it is undone."""
        if not self.happened or self.mended:
            return
        gate = self.gates[self.server.name]
        match self.plan.kind:
            case "server_killed":
                self.server.start()
                self.server.wait_ready()
                self.came_back_empty = True
            case "server_stalled":
                self.server.resume()
            case "out_of_memory":
                self.server.free_memory()
            case "wrong_config":
                gate.show(None)
            case "store_gone":
                gate.open()
            case "controller_stopped":
                controller.resume()
            case "controller_store_gone":
                self.own_gate.open()
        self.mended, self.mended_at = True, time.time()
        self.tell("mended" if self.plan.kind not in OF_THE_CONTROLLER else "mended: the controller may go on")

    def revive(self) -> None:
        """Start a server again that has crashed when it went on, as a cluster would.

        Triton's Python backend does so, also where nobody releases anything, when the server hung with a request in the
        process of the model: `Stub process … is not healthy`, and signal 11.
        """
        if self.plan.kind == "server_stalled" and self.mended and not self.server.is_alive:
            self.crashed, self.down_since = True, time.time()
            self.tell(f"{self.server.name} has crashed when it went on, and is started again")
            self.server.start()
            self.server.wait_ready()
            self.came_back_empty = True

    def excuse(self, back_at: float) -> list[Excuse]:
        """Return which requests fail also where nobody releases anything.

        :param back_at: when the server served the fleet's version again.
        """
        if not self.happened:
            return []
        if self.plan.kind == "server_killed" or self.crashed:
            return [Excuse(self.server.name, self.begun_at, back_at)]
        if self.plan.kind == "server_stalled":
            return [Excuse(self.server.name, self.begun_at, self.mended_at)]
        return []
