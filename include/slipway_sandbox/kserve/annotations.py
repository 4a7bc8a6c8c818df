"""The annotations of an InferenceService that mean something to KServe."""

from __future__ import annotations

DEPLOYMENT_MODE_ANNOTATION = "serving.kserve.io/deploymentMode"
TAG_ROUTING_ANNOTATION = "serving.kserve.io/enable-tag-routing"
# KServe's own note in what it makes: what the storage initializer is to fetch.
SOURCE_URI = "internal.serving.kserve.io/storage-initializer-sourceuri"
# KServe's defaults of inferenceservice-config's serviceAnnotationDisallowedList.
UNPROPAGATED_ANNOTATIONS = (
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/max-scale",
    SOURCE_URI,
    "kubectl.kubernetes.io/last-applied-configuration",
)
