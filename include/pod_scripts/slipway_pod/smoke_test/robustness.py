"""Boundary inputs, asked one after the other; after each the server must live and answer as before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway_pod.models.rows import GoldenRows
from slipway_pod.program.progress import say
from slipway_pod.smoke_test.phases import Plan, load
from slipway_pod.smoke_test.probes import Model, Probe, golden_request, probes_of
from slipway_pod.smoke_test.requests import Answered, Asker
from slipway_pod.smoke_test.server import END_S, OwnServer

# After so many dead servers the rest of the boundary inputs is left out.
CRASHES = 3


@dataclass
class Robustness:
    """Boundary inputs, one after the other; a server that dies of one, or answers no more, is replaced for the next.

    :ivar limit_s: of an answer.
    """

    plan: Plan
    model: Model
    golden: GoldenRows
    rows: Sequence[int]
    first: Answered
    limit_s: float
    found: list[dict[str, Any]] = field(default_factory=list)
    left_out: str = ""

    def run(self, server: OwnServer, asker: Asker) -> dict[str, Any]:
        """Ask them all.

        :param server: on which the version is loaded already; another one takes its place when it dies.
        """
        left = self._ask(server, asker, probes_of(self.model, self.golden, self.rows))
        crashes = 1
        while left and not self.left_out:
            if self.plan.left_s() <= 0:
                self.left_out = "the time was up"
            elif crashes >= CRASHES:
                self.left_out = f"{crashes} servers had died or answered no more"
            else:
                left = self._on_a_new_server(left)
                crashes += 1
        say("robustness", f"{len(self.found)} boundary inputs, {len(left)} left out")
        return {"probes": self.found, "left_out": len(left), "reason": self.left_out}

    def _on_a_new_server(self, probes: Sequence[Probe]) -> list[Probe]:
        """Load the version once more and go on; return what is left."""
        with self.plan.new_server() as server:
            loaded = load(self.plan, server)
            if loaded["status"] != "loaded":
                self.left_out = f"the version did not load again: {loaded['status']} {loaded['reason']}"
                return list(probes)
            with Asker(server, self.plan.model, self.limit_s, self.plan.left_s) as asker:
                return self._ask(server, asker, probes)

    def _ask(self, server: OwnServer, asker: Asker, probes: Sequence[Probe]) -> list[Probe]:
        """Ask until the server dies, answers no more, or the time is up; return what is left."""
        for number, probe in enumerate(probes):
            if self.plan.left_s() <= 0:
                return list(probes[number:])
            self.found.append(self._one(server, asker, probe))
            if self.found[-1]["died"] or self.found[-1]["stuck"]:
                return list(probes[number + 1 :])
        return []

    def _one(self, server: OwnServer, asker: Asker, probe: Probe) -> dict[str, Any]:
        since = server.log_size()
        answered = probe.send(asker)
        died = server.ended(END_S if answered.outcome == "silent" else 0.0)
        again = None if died else self._golden_row(asker)
        if again is not None and again.outcome != "answered":
            died = server.ended(END_S)
        stuck = again is not None and again.unheard and not died
        return {
            "name": probe.name,
            "via": probe.via,
            "outcome": answered.outcome,
            "message": answered.message,
            "ms": round(answered.ms, 3),
            "died": died,
            "golden": "" if again is None or stuck else self.plan.alike(self.first, again),
            "stuck": again.message if again is not None and stuck else "",
            "log": server.telling_lines(since) if died else [],
        }

    def _golden_row(self, asker: Asker) -> Answered:
        """Ask the golden row; it may have to wait until the server is done with the boundary input."""
        request = golden_request(self.model, self.golden, self.rows)
        again = asker.ask(request)
        return asker.ask(request) if again.outcome == "timed out" and self.plan.left_s() > 0 else again
