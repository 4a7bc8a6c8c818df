"""One release of a fleet, with or without a fault, until all is at rest; what was seen of it is the evidence."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.fleet.answers import FleetAnswer
from benchmarks.fleet.controller import Controller
from benchmarks.fleet.evidence import ENDED, Evidence
from benchmarks.fleet.faults import Fault
from benchmarks.fleet.lab import FleetLab
from benchmarks.fleet.plan import STEPS, UNREACHABLE_S, Plan
from benchmarks.fleet.servers import FleetServer

END_LIMIT_S = 120.0
"""Of all tries of the controller together."""

_REST_LIMIT_S = 20.0
_BEFORE_S = 0.3
_TRIES = 4
_POLL_S = 0.005
_AFTER = 2
_AWAY = ("fenced", "unreachable")


@dataclass
class FleetRun:
    """Runs the plan of one release.

    :param lab: whose servers all have the same version.
    """

    lab: FleetLab
    plan: Plan
    timeline: list[tuple[float, str]] = field(default_factory=list)

    def run(self) -> Evidence:
        """Release the next version while the fault happens, and return what was seen."""
        lab, plan = self.lab, self.plan
        names = tuple(one.name for one in lab.servers)
        seen = Evidence(plan, lab.version, lab.publish(), names)
        began = time.time()
        self._tell(f"{seen.before} → {seen.target}")
        self.answers = [one for one in lab.new_answers() if one.received > began - _BEFORE_S]
        server = lab.servers[plan.server]
        self.fault = Fault(plan, server, lab.gates, lab.own_gate, self._tell)
        self._release(seen, seen.target)
        self.fault.revive()
        seen.happened, seen.crashed = self.fault.happened, self.fault.crashed
        self._not_counted(seen, server)
        self._rest(seen)
        return seen

    def join(self, seen: Evidence) -> Evidence | None:
        """Release the settled version once more where a server does not count, so that it joins; return what was seen.

        None where all servers count.
        """
        if not seen.not_counted:
            return None
        self._tell(f"{', '.join(seen.not_counted)} shall join")
        joined = Evidence(self.plan, seen.settled, seen.settled, seen.servers, happened=seen.happened)
        self.answers = []
        controller = self._start(joined, seen.settled, f"{self.plan.seed}-join", f"{self.plan.seed}-join")
        joined.finished = self.lab.wait(lambda: controller.has_ended, END_LIMIT_S)
        self._conclude(joined, controller)
        self._rest(joined)
        joined.answers = [one for one in joined.answers if one.server not in seen.not_counted]
        return joined

    # --- the release ---

    def _release(self, seen: Evidence, version: int) -> None:
        """Run the controller until it says how it ended, again where it was killed or could not end."""
        limit = time.time() + END_LIMIT_S
        for attempt in range(1, _TRIES + 1):
            controller = self._start(seen, version, str(self.plan.seed), f"{self.plan.seed}-{attempt}")
            self._follow(controller, limit)
            seen.finished = controller.has_ended
            self._conclude(seen, controller)
            if seen.outcome in ENDED or not seen.finished:
                break
            # Nobody tries again while what he needs is away.
            self._wait_to_mend(controller, limit)
        self._wait_to_mend(controller, limit)
        seen.seconds = END_LIMIT_S - (limit - time.time())

    def _start(self, seen: Evidence, version: int, run_id: str, name: str) -> Controller:
        self._tell(f"the controller starts: {seen.before} → {version}")
        return self.lab.release(version, run_id, name, self.plan.on_unreachable, UNREACHABLE_S)

    def _follow(self, controller: Controller, limit: float) -> None:
        """Inject the fault when its step has begun, mend it when it is due, until the controller has ended."""
        later_s = self.plan.later_ms / 1000
        due_at = controller.began + later_s if self.plan.step == STEPS[0] else None
        while not controller.has_ended and time.time() < limit:
            for step in controller.new_steps():
                self.timeline.append((step.at, f"{step.act} {' '.join(step.servers)}"))
                if step.act == self.plan.step and due_at is None:
                    due_at = step.at + later_s
            if not self.fault.happened and due_at is not None and time.time() >= due_at:
                self.fault.inject(controller)
            if self.fault.is_due_to_mend:
                self.fault.mend(controller)
            self.fault.revive()
            time.sleep(_POLL_S)

    def _wait_to_mend(self, controller: Controller, limit: float) -> None:
        while self.fault.happened and not self.fault.mended:
            if self.fault.is_due_to_mend or time.time() > limit:
                self.fault.mend(controller)
            time.sleep(_POLL_S)

    def _conclude(self, seen: Evidence, controller: Controller) -> None:
        """Take down what the controller said of itself; one that has not ended in time is killed."""
        finished = controller.has_ended
        controller.kill()
        for step in controller.new_steps():
            self.timeline.append((step.at, f"{step.act} {' '.join(step.servers)}"))
        outcome = controller.outcome
        if outcome is None:
            was_killed = self.plan.kind == "controller_killed" and not seen.outcomes
            seen.outcomes.append("killed" if was_killed else "crashed" if finished else "hung")
            seen.reasons = [*seen.reasons, "" if was_killed else controller.log_end()]
        else:
            seen.outcomes.append(outcome["outcome"])
            seen.reasons = [*seen.reasons, *outcome["reasons"]]
            seen.prepare_s, seen.commit_ms = outcome["prepare_s"] or 0.0, outcome["commit_ms"] or 0.0
            seen.not_counted = {
                name: f"{one['state']}: {one['reason']}"
                for name, one in outcome["servers"].items()
                if one["state"] in _AWAY
            }
        self._tell(f"the controller: {seen.outcomes[-1]}")

    def _not_counted(self, seen: Evidence, server: FleetServer) -> None:
        """A server that came back empty after the controller had brought it somewhere counts when it has joined."""
        if self.fault.came_back_empty and server.name not in seen.not_counted and not _loaded(server):
            seen.not_counted = {**seen.not_counted, server.name: "it came back empty"}

    # --- at rest ---

    def _rest(self, seen: Evidence) -> None:
        """Wait for answers of all servers that count, and ask each what it has loaded."""
        self.fault.revive()
        rest = time.time()
        self._tell("at rest")

        def enough() -> bool:
            self.answers += self.lab.new_answers()
            late = [one for one in self.answers if one.sent > rest]
            counts: dict[tuple[str, str], int] = {}
            for one in late:
                counts[one.server, one.protocol] = counts.get((one.server, one.protocol), 0) + 1
            return all(
                counts.get((name, protocol), 0) >= _AFTER
                for name in seen.counting
                for protocol in ("http", "grpc")
            )

        self.lab.wait(enough, _REST_LIMIT_S)
        seen.answers = self.answers
        seen.after = [one for one in self.answers if one.sent > rest]
        seen.loaded = {one.name: _loaded(one) for one in self.lab.servers}
        seen.died = {one.name: one.log_end() for one in self.lab.servers if not one.is_alive}
        seen.excuses = self.fault.excuse(_back_at(seen.answers, self.fault))

    def _tell(self, text: str) -> None:
        self.timeline.append((time.time(), text))


def _loaded(server: FleetServer) -> Mapping[str, list[int]] | None:
    try:
        return server.loaded()
    except OSError:
        return None


def _back_at(answers: list[FleetAnswer], fault: Fault) -> float:
    """Return when the server of the fault gave its first good answer to a request that was sent after it was killed."""
    good = [
        one.received
        for one in answers
        if one.server == fault.server.name and one.error is None and one.sent > fault.down_since
    ]
    return min(good, default=float("inf"))
