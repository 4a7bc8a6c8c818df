"""How long a canary's lease lasts: what a release file may ask for, and what a Lease object is believed."""

DEFAULT_LEASE_S = 60
LONGEST_LEASE_S = 3600
"""The longest that a release file may ask for. A Lease that says more is read as this."""
DEFAULT_HANDOVER_S = 180
LONGEST_HANDOVER_S = 900
"""How long the lease may last between the end of the steps and the task that promotes."""
