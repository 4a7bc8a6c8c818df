"""Whether the servers of a fleet serve the same, asked now."""

from __future__ import annotations

import asyncio

from slipway.fleet.context import FleetContext
from slipway.fleet.members import Members
from slipway.fleet.server import FleetServer
from slipway_core.fleet.parity import Parity, parity_of


async def parity_now(parts: FleetContext, members: Members) -> Parity:
    """Ask every server of a fleet what it serves; nothing is changed.

    :raises SlipwayError: nobody knows which servers there are, or what the fleet should serve.
    """
    file = parts.file
    document = await parts.fleet_store().read()
    servers = [FleetServer(one, file.model, file.policy) for one in await members.current()]
    reports = await asyncio.gather(*(one.report() for one in servers))
    left = document.run
    return parity_of(
        file.fleet,
        file.model,
        document.version,
        sorted(reports, key=lambda one: one.server),
        manifest_sha256=document.manifest_sha256,
        open_release="" if left is None else f"{left.run_id}, of version {left.version}, in {left.phase}",
    )
