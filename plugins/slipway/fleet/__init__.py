"""Many Triton servers as one: every server of a fleet takes a version together, or none does.

`release_fleet` is the one entry point, of use without Airflow too. What to do next is decided in
`include.model_release.fleet`; here it is carried out, and written to the object store before it is.
"""

from include.model_release.fleet.golden import GoldenRequest
from include.model_release.fleet.outcome import FleetOutcome, ServerResult
from include.model_release.fleet.policy import FleetPolicy
from slipway.fleet.members import Member, Members, StaticMembers, server_at
from slipway.fleet.release import FleetRelease, release_fleet, settle_fleet
from slipway.fleet.store import FleetStore

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
