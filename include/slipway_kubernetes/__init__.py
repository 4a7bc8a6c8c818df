"""Objects of the Kubernetes API, by the official client: for Airflow's hooks and for the guard alike.

No Airflow, no pydantic and nothing of the domain but its errors: what an object means is known elsewhere. The client is
in the module `client`, which is not imported here: whoever only names a kind need not wait for it.
"""

from slipway_kubernetes.kind import ObjectKind, kind_of

__all__ = ["ObjectKind", "kind_of"]
