"""The phases of one smoke test, in their order, and how one of them decides whether the next one comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.models.answers import rows_of_a_request
from slipway_pod.models.deadlines import Deadlines
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Signature, Tensor
from slipway_pod.smoke_test.phases import Plan, instances, load, memory, model_of, steady, streams, timed
from slipway_pod.smoke_test.probes import golden_request
from slipway_pod.smoke_test.requests import Asker
from slipway_pod.smoke_test.robustness import Robustness
from slipway_pod.smoke_test.server import END_S, OwnServer

ReadGolden = Callable[[tuple[Tensor, ...]], GoldenRows]
# Requests of different golden rows that take turns while the memory is watched.
REQUESTS_IN_TURN = 16


class SmokeTest:
    """The phases of one smoke test, in their order."""

    def __init__(self, plan: Plan, read: ReadGolden, result: dict[str, Any]) -> None:
        """Keep what is asked for; `result` is filled in as the test goes.

        :param read: reads the golden set for a model's inputs.
        """
        self._plan, self._read_golden, self._result = plan, read, result

    def all_loads(self) -> None:
        """Load the version on new servers, one after the other; go on with the last one, unless one has failed.

        :raises PodError: the time was up before a load had its own, or it is not the version that fails.
        """
        plan = self._plan
        for number in range(1, plan.loads + 1):
            with plan.new_server() as server:
                before = server.gpu_bytes() if number == plan.loads else None
                self._result["loads"].append(load(plan, server))
                status = self._result["loads"][-1]["status"]
                if status == "cut short":
                    raise PodError(
                        "TimedOutError",
                        f"Load {number} of {plan.loads} was cut short by the end of the smoke test",
                        expected=f"that a load has its limit, {plan.load_timeout_s:g} s (`serving.load_timeout_s`)",
                        found=self._result["loads"][-1]["reason"],
                        remedy="raise `smoke_test.timeout_s`, or ask for fewer `smoke_test.loads`",
                    )
                if status != "loaded":
                    return
                self._first_request(server)
                if self._result.get("broken"):
                    return
                if number == plan.loads and self._can_be_asked():
                    self._on_the_last_server(server, before)

    def _can_be_asked(self) -> bool:
        return not self._result.get("not_asked") and not self._result.get("broken")

    def _first_request(self, server: OwnServer) -> None:
        """Ask the first request after a load, and time it."""
        plan, entry = self._plan, self._result["loads"][-1]
        since = server.log_size()
        try:
            if self._result.get("server") is None:
                self._look(server)
        except OSError as error:
            self._broken(server, f"the server does not list its models: {type(error).__name__}", since)
        if not self._can_be_asked():
            return
        self._deadlines = Deadlines(plan.request_timeout_s)
        with Asker(server, plan.model, self._deadlines.first_s(), plan.left_s) as asker:
            self._first = asker.ask(golden_request(self._model, self._golden, self._rows))
            entry["first_request_ms"] = round(self._first.ms, 3)
            if self._first.outcome != "answered":
                self._broken(server, self._first.message, since, silent=self._first.unheard)
            elif len(self._result["loads"]) == plan.loads:
                request = golden_request(self._model, self._golden, self._rows)
                self._result["steady"] = steady(plan, asker, request, self._first)
                usual_ms = self._result["steady"]["p50_ms"] or self._first.ms
                self._deadlines = Deadlines(plan.request_timeout_s, usual_ms / 1000)

    def _broken(self, server: OwnServer, message: str, since: int, *, silent: bool = False) -> None:
        """Note that the version is loaded, and does not answer; `silent`: no word came of it in time."""
        died, log = server.ended(END_S), server.telling_lines(since)
        self._result["broken"] = {"message": message, "died": died, "log": log, "silent": silent}

    def _look(self, server: OwnServer) -> None:
        """Read the model's inputs from the server, and the golden set by them."""
        self._model, self._configs = model_of(self._plan, server)
        self._golden = self._read_golden(self._model.inputs)
        # A model that fixes the size of the rows' axis is fed that many rows at a time.
        number = rows_of_a_request(Signature(self._model.inputs, ()), self._golden) or 1
        self._rows = [row % self._golden.rows for row in range(number)]
        self._result["server"] = _about(server)
        if streams(self._configs):
            self._result["not_asked"] = "the model answers in streams (decoupled), which are not asked here"

    def _on_the_last_server(self, server: OwnServer, gpu_before: int | None) -> None:
        """Ask every instance, then many times, then at and beyond the limits of the inputs."""
        plan, deadlines = self._plan, self._deadlines
        limit_s = deadlines.limit_s(max(1, self._model.max_batch_size))
        with Asker(server, plan.model, limit_s, plan.left_s) as asker:
            request = golden_request(self._model, self._golden, self._rows)
            self._result["instances"] = timed(
                lambda: instances(plan, server, asker, request, self._first, self._configs, deadlines),
            )
            requests = [
                golden_request(
                    self._model, self._golden, [(row + start) % self._golden.rows for row in self._rows]
                )
                for start in range(min(self._golden.rows, REQUESTS_IN_TURN))
            ]
            self._result["memory"] = timed(lambda: memory(plan, server, asker, requests, deadlines))
            after = server.gpu_bytes()
            if not self._result["memory"]["ended"]:
                # Last: it may end the server.
                beyond = Robustness(plan, self._model, self._golden, self._rows, self._first, limit_s)
                self._result["robustness"] = timed(lambda: beyond.run(server, asker))
        self._result["gpu"] = (
            None if after is None else {"before_bytes": gpu_before or 0, "after_bytes": after}
        )


def _about(server: OwnServer) -> dict[str, Any]:
    """Return what the server tells of itself."""
    reply = server.call("GET", "/v2")
    metadata = json.loads(reply.body) if reply.status == 200 else {}
    return {"name": str(metadata.get("name", "")), "version": str(metadata.get("version", ""))}
