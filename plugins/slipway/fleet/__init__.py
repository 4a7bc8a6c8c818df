"""Many Triton servers as one: every server of a fleet takes a version together, or none does.

`release_fleet` is the one entry point, of use without Airflow too. What to do next is decided in
`slipway_core.fleet`; here it is carried out, and written to the object store before it is.
"""

from slipway.fleet.members import Member, Members, StaticMembers, server_at
from slipway.fleet.release import FleetRelease, release_fleet, settle_fleet
from slipway.fleet.store import FleetStore
from slipway_core.fleet.golden import GoldenRequest
from slipway_core.fleet.outcome import FleetOutcome, ServerResult
from slipway_core.fleet.policy import FleetPolicy

__all__ = [
    "FleetOutcome",
    "FleetPolicy",
    "FleetRelease",
    "FleetStore",
    "GoldenRequest",
    "Member",
    "Members",
    "ServerResult",
    "StaticMembers",
    "release_fleet",
    "server_at",
    "settle_fleet",
]
