"""What came of a release to a fleet."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Outcome = Literal["committed", "taken_back", "failed"]
ServerOutcome = Literal["committed", "taken_back", "fenced", "unreachable", "failed"]


class ServerResult(BaseModel):
    """What came of it on one server.

    :param version: what it serves in the end; None: nothing, or it does not say.
    :param reason: why it is not as it should be; empty where it is.
    """

    model_config = ConfigDict(frozen=True)

    state: ServerOutcome
    version: int | None = None
    reason: str = ""


class FleetOutcome(BaseModel):
    """What came of a release to a fleet.

    :param outcome: `committed`: all servers that count serve `version`. `taken_back`: each server that answers has what
        it had before. `failed`: one that answers could not be led back; `servers` says which.
    :param from_version: what the fleet had before; None: nothing.
    :param prepare_s: from the beginning to the moment when all servers were verified; None: they never were.
    :param commit_ms: from the first server that was asked to change to the last that had; None: none was asked.
    :param reasons: what went wrong, in the order in which it was seen.
    """

    model_config = ConfigDict(frozen=True)

    fleet: str
    model: str
    version: int
    from_version: int | None
    outcome: Outcome
    servers: dict[str, ServerResult]
    prepare_s: float | None = None
    commit_ms: float | None = None
    reasons: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Return what came of it, in words."""
        counted = sum(one.state == "committed" for one in self.servers.values())
        what = {
            "committed": f"on {counted} of {len(self.servers)} servers",
            "taken_back": "taken back: each server that answers has what it had before",
            "failed": "neither on all servers nor taken back on all",
        }[self.outcome]
        return ". ".join([what, *self.reasons])
