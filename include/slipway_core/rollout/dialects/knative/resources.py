"""What KServe makes of an InferenceService in Knative mode, and Knative of that."""

from __future__ import annotations

from slipway_core.rollout.reading import Resource

KNATIVE_SERVICES = Resource("serving.knative.dev", "v1", "services", "Knative Service")
REVISIONS = Resource("serving.knative.dev", "v1", "revisions", "Revision")
