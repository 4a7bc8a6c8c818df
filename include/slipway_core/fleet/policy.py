"""How long the servers of a fleet are waited for, and what becomes of one that does not answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

OnUnreachable = Literal["fail", "fence"]


class FleetPolicy(BaseModel):
    """Limits, in seconds, and what holds at their ends.

    :param on_unreachable: `fail`: all go back to what they had. `fence`: the server is taken out of the fleet, and the
        others go on.
    :param unreachable_s: for how long a server may give no answer.
    :param least_servers: fewer than these are never left by fencing.
    :param call_limit_s: for a question.
    :param load_limit_s: for the loads of a version on one server, and of the alias that it is tried with.
    :param commit_limit_s: for the load of users' alias: for so long after a server was asked to give users the version
        others may have it already.
    :param quiet_s: for how long nobody may have asked a version before it is unloaded.
    :param drain_limit_s: for the last requests of the version before.
    :param settle_limit_s: for how long a server that does not answer is waited for on the way back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    on_unreachable: OnUnreachable = "fail"
    unreachable_s: float = Field(default=30.0, gt=0, le=3600)
    least_servers: int = Field(default=1, ge=1)
    call_limit_s: float = Field(default=5.0, gt=0, le=600)
    load_limit_s: float = Field(default=600.0, gt=0, le=86400)
    # Triton 2.51 needs 25 s for the load of an alias while its object store is away.
    commit_limit_s: float = Field(default=45.0, gt=0, le=3600)
    quiet_s: float = Field(default=1.0, ge=0, le=3600)
    drain_limit_s: float = Field(default=300.0, gt=0, le=86400)
    settle_limit_s: float = Field(default=60.0, ge=0, le=3600)
