"""How long a trigger waits for the object store."""

from __future__ import annotations

# Of one request to the object store, by who watches users or is about to raise a weight.
STORE_TIMEOUT_S = 2.0
