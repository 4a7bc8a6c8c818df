"""The release file's `notify`: who is notified of which events."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from slipway_core.spec.parts import SpecPart

NoticeEvent = Literal[
    "started",
    "waiting_for_approval",
    "held",
    "refused",
    "failed",
    "rolled_back",
    "promoted",
    "inconclusive",
    "lease_lost",
    "drift_found",
]
NOTICE_EVENTS: tuple[NoticeEvent, ...] = get_args(NoticeEvent)

ConnectionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$")]


class NotifyRule(SpecPart):
    """One receiver, and the events that it is notified of."""

    on: Annotated[tuple[NoticeEvent, ...], Field(min_length=1, max_length=len(NOTICE_EVENTS))]
    """The events."""
    to: ConnectionId
    """The id of an Airflow connection; the receiver's address and its secret are there, and nowhere else."""


Notify = Annotated[tuple[NotifyRule, ...], Field(max_length=50)]
