"""What came of a release to a fleet."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Outcome = Literal["committed", "taken_back", "failed"]
ServerOutcome = Literal["committed", "taken_back", "fenced", "unreachable", "failed"]


class ServerResult(BaseModel):
    """What came of it on one server.

    :param version: what it serves in the end; None: nothing, or it does not say.
    :param reason: why it is not as it should be; empty if it is.
    """

    model_config = ConfigDict(frozen=True)

    state: ServerOutcome
    version: int | None = None
    reason: str = ""


class FleetOutcome(BaseModel):
    """What came of a release to a fleet.

    :param outcome: `committed`: `version` is the fleet's, and stays that; `missing` says which servers do not show it,
        because they were lost after they had it, or joined and could not be brought to it. `taken_back`: each server
        that answers has what it had before. `failed`: one that answers could not be led back, which `servers` says, or
        none was asked.
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
    def missing(self) -> tuple[str, ...]:
        """Return the servers that count and do not show the version in the end."""
        counting = {name: one for name, one in self.servers.items() if one.state != "fenced"}
        return tuple(name for name, one in counting.items() if one.version != self.version)

    @property
    def is_whole(self) -> bool:
        """Return whether every server that counts shows the version; not where there is none."""
        return self.outcome == "committed" and bool(self.servers) and not self.missing

    @property
    def summary(self) -> str:
        """Return what came of it, in words."""
        counted = sum(one.version == self.version for one in self.servers.values())
        what = {
            "committed": f"on {counted} of {len(self.servers)} servers",
            "taken_back": "rolled back: each server that answers has what it had before",
            "failed": "neither on all servers nor rolled back on all",
        }[self.outcome]
        return ". ".join([what, *self.reasons])
