"""Objects of the Kubernetes API, by the official client: for Airflow's hooks and for the guard alike.

No Airflow, no pydantic and nothing of the domain but its errors: what an object means is known elsewhere.
"""

from include.kubernetes_objects.client import (
    KubernetesObjects,
    Listing,
    ObjectKind,
    without_retries,
)

__all__ = ["KubernetesObjects", "Listing", "ObjectKind", "without_retries"]
