"""How long a canary's lease lasts: what a release file may ask for, and what a Lease object is believed."""

DEFAULT_LEASE_S = 60
LONGEST_LEASE_S = 3600
"""The longest that a release file may ask for. A Lease that says more is read as this."""
