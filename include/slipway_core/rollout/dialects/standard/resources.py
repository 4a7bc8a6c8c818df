"""What KServe makes of an InferenceService in Standard mode."""

from __future__ import annotations

from slipway_core.rollout.dialects.standard.candidate_route import API_GROUP, API_VERSION, route_name
from slipway_core.rollout.pods.drain import SERVICE_LABEL
from slipway_core.rollout.reading import Reading, Resource

HTTP_ROUTES = Resource(API_GROUP, API_VERSION, "httproutes", "HTTPRoute")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


def routes_of(service: str) -> Reading:
    """Return the HTTPRoutes of an InferenceService.

    KServe makes two, the service's own and its predictor's; the third is slipway's, of a candidate that can be tried.
    All are missing in a cluster without Gateway API.
    """
    names = (service, f"{service}-predictor", route_name(service))
    return Reading(HTTP_ROUTES, names, is_needed=True)


def deployments_of(service: str) -> Reading:
    """Return the Deployments of an InferenceService; without them who needs to know waits, and a rollback does not."""
    return Reading(DEPLOYMENTS, label_selector=f"{SERVICE_LABEL}={service}")
